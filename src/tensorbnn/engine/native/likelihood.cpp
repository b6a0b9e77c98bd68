#include "likelihood.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "threads.hpp"

namespace tensorbnn {
namespace {

// Activations of a tile take at most about this many bytes, half of a small second-level cache.
constexpr size_t tile_bytes = 256 * 1024;
constexpr int most_tile_vectors = 64;
// Parameters times rows that are worth a thread of their own (about 40 microseconds).
constexpr int64_t piece_work = 1 << 19;
constexpr int most_pieces = 16;
// Chains stand along the lanes where there are enough of them, and so few rows.
constexpr int most_rows_of_chains = 64;

// Aligned memory that is kept for the next call of this thread.
template <class T>
class Scratch {
 public:
  T* get(size_t count) {
    if (count > size_) {
      std::free(memory_);
      memory_ = static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64));
      size_ = memory_ ? count : 0;
      if (!memory_) throw std::bad_alloc();
    }
    return memory_;
  }
  ~Scratch() { std::free(memory_); }

 private:
  T* memory_ = nullptr;
  size_t size_ = 0;
};

template <class T>
T* scratch(size_t count) {
  thread_local Scratch<T> memory;
  return memory.get(count);
}

// What of the data a piece is: vectors `first` to `last`, counted through tiles and rest.
template <class T>
class Pieces {
 public:
  Pieces(const Network& network, const Data<T>& data, int lanes) : data_(data), lanes_(lanes) {
    tile_vectors_ = (data.tile_rows + lanes - 1) / lanes;
    vectors_ = static_cast<int64_t>(data.tiles) * tile_vectors_ +
               (data.rest.count + lanes - 1) / lanes;
    const int64_t work = static_cast<int64_t>(network.num_parameters) * data.rows();
    count_ = 1;
    while (count_ < most_pieces && work / piece_work >= 2 * count_ && vectors_ >= 2 * count_)
      count_ *= 2;
    inputs_ = network.inputs;
    targets_ = network.targets;
  }

  int count() const { return count_; }

  // Call `with(rows)` for each run of rows in a piece.
  template <class With>
  void visit(int piece, With with) const {
    int64_t at = vectors_ * piece / count_;
    const int64_t end = vectors_ * (piece + 1) / count_;
    while (at < end) {
      const int64_t tile = tile_vectors_ ? std::min<int64_t>(at / tile_vectors_, data_.tiles) : 0;
      const int64_t begin = tile * tile_vectors_;
      Rows<T> rows = tile < data_.tiles ? of_tile(tile) : data_.rest;
      const int64_t first = at - begin;
      const int64_t whole = (rows.count + lanes_ - 1) / lanes_;
      const int64_t last = std::min(whole, end - begin);
      rows.inputs += first * lanes_;
      rows.targets += first * lanes_;
      rows.count = static_cast<int>(std::min<int64_t>(rows.count, last * lanes_) - first * lanes_);
      with(rows);
      at = begin + last;
    }
  }

 private:
  Rows<T> of_tile(int64_t tile) const {
    const size_t stride = data_.tile_rows;
    return {data_.tile_inputs + tile * inputs_ * stride, stride,
            data_.tile_targets + tile * targets_ * stride, stride, data_.tile_rows};
  }

  const Data<T>& data_;
  int lanes_, count_, inputs_, targets_;
  int64_t tile_vectors_, vectors_;
};

template <class T>
int tile_for(const Network& network, const Kernel<T>& kernel, int64_t vectors) {
  const size_t each = work_size(network, kernel.lanes) * sizeof(T);
  int64_t tile = static_cast<int64_t>(tile_bytes / each) / 4 * 4;
  tile = std::min<int64_t>(std::max<int64_t>(tile, 4), most_tile_vectors);
  return static_cast<int>(std::max<int64_t>(std::min(tile, vectors), 1));
}

// From the kernel's sum to the log-likelihood.
template <class T>
void finish(const Network& network, const Data<T>& data, double sum, T sd, T* value,
            T* sd_gradient) {
  if (network.likelihood != Likelihood::Gaussian) {
    *value = static_cast<T>(sum);
    *sd_gradient = 0;
    return;
  }
  constexpr double half_log_two_pi = 0.91893853320467274178;
  const double count = static_cast<double>(data.rows()) * network.targets;
  const double wide = static_cast<double>(sd);
  *value = static_cast<T>(-0.5 * sum - count * (std::log(wide) + half_log_two_pi));
  *sd_gradient = static_cast<T>((sum - count) / wide);
}

template <class T>
void one_chain(const Kernel<T>& kernel, const Network& network, const Data<T>& data,
               const Threads& threads, const T* parameters, T sd, T* value, T* gradient,
               T* sd_gradient) {
  const Pieces<T> pieces(network, data, kernel.lanes);
  const int tile = tile_for(network, kernel, (data.rows() + kernel.lanes - 1) / kernel.lanes);
  const size_t room = work_size(network, static_cast<size_t>(tile) * kernel.lanes);
  const size_t size = network.num_parameters;
  // The first piece writes where the result is wanted.
  std::vector<T> gradients((pieces.count() - 1) * size, T(0));
  double sums[most_pieces] = {};
  std::fill(gradient, gradient + size, T(0));
  for_each_piece(pieces.count(), threads.count, threads.schedule, [&](int piece) {
    T* own = piece ? gradients.data() + (piece - 1) * size : gradient;
    T* work = scratch<T>(room);
    pieces.visit(piece, [&](const Rows<T>& rows) {
      kernel.rows(network, rows, tile, parameters, sd, work, own, &sums[piece]);
    });
  });
  double sum = sums[0];
  for (int piece = 1; piece < pieces.count(); ++piece) {
    sum += sums[piece];
    const T* own = gradients.data() + (piece - 1) * size;
    for (size_t i = 0; i < size; ++i) gradient[i] += own[i];
  }
  finish(network, data, sum, sd, value, sd_gradient);
}

// As many chains as there are lanes, of which `count` are wanted.
template <class T>
void chains_in_lanes(const Kernel<T>& kernel, const Network& network, const Data<T>& data,
                     const Batch<T>& batch, int first, int count) {
  const size_t size = network.num_parameters, lanes = kernel.lanes;
  const int tile = tile_for(network, kernel, data.rest.count);
  const size_t room = work_size(network, tile * lanes);
  T* parameters = scratch<T>(room + (2 * size + 1) * lanes);
  T* gradient = parameters + size * lanes;
  T* sd = gradient + size * lanes;
  T* work = sd + lanes;
  std::vector<double> sums(lanes, 0.0);
  std::fill(gradient, gradient + size * lanes, T(0));
  for (size_t lane = 0; lane < lanes; ++lane) {
    // Lanes without a chain repeat the last one.
    const size_t chain = first + std::min<size_t>(lane, count - 1);
    for (size_t i = 0; i < size; ++i)
      parameters[i * lanes + lane] = batch.parameters[chain * size + i];
    sd[lane] = batch.sd[chain];
  }
  kernel.chains(network, data.rest, tile, parameters, sd, work, gradient, sums.data());
  for (int lane = 0; lane < count; ++lane) {
    const size_t chain = first + lane;
    for (size_t i = 0; i < size; ++i)
      batch.gradient[chain * size + i] = gradient[i * lanes + lane];
    finish(network, data, sums[lane], sd[lane], batch.value + chain, batch.sd_gradient + chain);
  }
}

}  // namespace

template <class T>
void log_likelihood(const Kernel<T>& kernel, const Network& network, const Data<T>& data,
                    const Threads& threads, const Batch<T>& batch) {
  if (batch.chains >= kernel.lanes && !data.tiles && data.rest.count <= most_rows_of_chains) {
    const int groups = (batch.chains + kernel.lanes - 1) / kernel.lanes;
    for_each_piece(groups, threads.count, threads.schedule, [&](int group) {
      const int first = group * kernel.lanes;
      chains_in_lanes(kernel, network, data, batch, first,
                      std::min(kernel.lanes, batch.chains - first));
    });
    return;
  }
  const bool alone = batch.chains == 1;
  const Threads none{1, {}};
  for_each_piece(batch.chains, threads.count, threads.schedule, [&](int chain) {
    one_chain(kernel, network, data, alone ? threads : none,
              batch.parameters + chain * network.num_parameters, batch.sd[chain],
              batch.value + chain, batch.gradient + chain * network.num_parameters,
              batch.sd_gradient + chain);
  });
}

template void log_likelihood(const Kernel<float>&, const Network&, const Data<float>&,
                             const Threads&, const Batch<float>&);
template void log_likelihood(const Kernel<double>&, const Network&, const Data<double>&,
                             const Threads&, const Batch<double>&);

}  // namespace tensorbnn
