#include "batch.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "memory.hpp"
#include "pieces.hpp"
#include "threads.hpp"

namespace tensorbnn {
namespace {

// The parts of the log-likelihood and of the gradient that belong to a width of the noise, from the
// kernel's sum: an sd, or a factor of error bars, whose logarithms the caller adds, since they do
// not depend on parameters.
class Ending {
 public:
  template <class T>
  Ending(const Network& network, const Data<T>& data)
      : gaussian_(has_widths(network.likelihood)),
        count_(static_cast<double>(data.rows()) * network.outputs / network.widths) {}

  double value(double sum, double sd) {
    if (!gaussian_) return sum;
    if (sd != sd_) {  // often unchanged within a trajectory
      sd_ = sd;
      log_sd_ = std::log(sd);
    }
    constexpr double half_log_two_pi = 0.91893853320467274178;
    return -0.5 * sum - count_ * (log_sd_ + half_log_two_pi);
  }

  double sd_gradient(double sum, double sd) const { return gaussian_ ? (sum - count_) / sd : 0; }

 private:
  bool gaussian_;
  double count_, sd_ = 1, log_sd_ = 0;
};

// One chain: rows along the lanes.
template <class T>
class RowEvaluation {
 public:
  RowEvaluation(const Kernel<T>& kernel, const Network& network, const Data<T>& data,
                const Threads& threads)
      : kernel_(kernel), network_(network), pieces_(network, data, kernel.lanes),
        team_(pieces_.count(), threads.count, threads.schedule),
        endings_(network.widths, {network, data}), sums_(pieces_.count() * network.widths),
        tile_(tile_for(network, kernel, (data.rows() + kernel.lanes - 1) / kernel.lanes)),
        room_(work_size(network, tile_, kernel.lanes)),
        gradients_((pieces_.count() - 1) * network.num_parameters) {}

  // `value` and `sd_gradient` may be null, as in `Trajectory`.
  void operator()(const T* parameters, const T* sd, T* gradient, double* value, T* sd_gradient) {
    const size_t size = network_.num_parameters;
    const int widths = network_.widths;
    std::fill(sums_.begin(), sums_.end(), 0.0);
    // The first piece writes to the result directly.
    const auto piece = [&](int index) {
      T* own = index ? gradients_.data() + (index - 1) * size : gradient;
      std::fill(own, own + size, T(0));
      T* work = scratch<T>(room_);
      pieces_.visit(index, [&](const Rows<T>& rows) {
        kernel_.rows(network_, rows, tile_, parameters, sd, work, own, &sums_[index * widths]);
      });
    };
    team_.run(piece);
    for (int index = 1; index < pieces_.count(); ++index) {
      for (int w = 0; w < widths; ++w) sums_[w] += sums_[index * widths + w];
      const T* own = gradients_.data() + (index - 1) * size;
      for (size_t i = 0; i < size; ++i) gradient[i] += own[i];
    }
    if (value) *value = 0;
    for (int w = 0; w < widths; ++w) {
      const double wide = static_cast<double>(sd[w]);
      if (sd_gradient) sd_gradient[w] = static_cast<T>(endings_[w].sd_gradient(sums_[w], wide));
      if (value) *value += endings_[w].value(sums_[w], wide);
    }
  }

  static void call(void* self, const T* values, const T* sd, T* by_values, double* value,
                   T* sd_gradient) {
    (*static_cast<RowEvaluation*>(self))(values, sd, by_values, value, sd_gradient);
  }

 private:
  const Kernel<T>& kernel_;
  const Network& network_;
  Pieces<T> pieces_;
  Team team_;
  std::vector<Ending> endings_;
  std::vector<double> sums_;  // one per piece and width
  int tile_;
  size_t room_;
  std::vector<T> gradients_;
};

// One chain per lane; made and called by one thread.
template <class T>
class ChainEvaluation {
 public:
  ChainEvaluation(const Kernel<T>& kernel, const Network& network, const Data<T>& data)
      : kernel_(kernel), network_(network), data_(data),
        endings_(network.widths * kernel.lanes, {network, data}),
        tile_(tile_for(network, kernel, data.rest.count)),
        work_(scratch<T>(work_size(network, tile_, kernel.lanes))),
        sums_(network.widths * kernel.lanes) {}

  static void call(void* self, const T* values, const T* sd, T* by_values, double* value,
                   T* sd_gradient) {
    (*static_cast<ChainEvaluation*>(self))(values, sd, by_values, value, sd_gradient);
  }

  void operator()(const T* parameters, const T* sd, T* gradient, double* value, T* sd_gradient) {
    const size_t size = network_.num_parameters * kernel_.lanes;
    if (!data_.rest.count) std::fill(gradient, gradient + size, T(0));
    std::fill(sums_.begin(), sums_.end(), 0.0);
    kernel_.chains(network_, data_.rest, tile_, parameters, sd, work_, gradient, sums_.data());
    if (!value && !sd_gradient) return;
    if (value) std::fill(value, value + kernel_.lanes, 0.0);
    for (int at = 0; at < network_.widths * kernel_.lanes; ++at) {
      const double wide = static_cast<double>(sd[at]);
      if (value) value[at % kernel_.lanes] += endings_[at].value(sums_[at], wide);
      if (sd_gradient)
        sd_gradient[at] = static_cast<T>(endings_[at].sd_gradient(sums_[at], wide));
    }
  }

 private:
  const Kernel<T>& kernel_;
  const Network& network_;
  const Data<T>& data_;
  std::vector<Ending> endings_;
  int tile_;
  T* work_;  // of this thread
  std::vector<double> sums_;
};

template <class T>
bool chains_along_lanes(const Kernel<T>& kernel, const Data<T>& data, int chains) {
  return chains >= kernel.lanes && !data.tiles && data.rest.count <= most_rows_of_chains;
}

template <class T>
void likelihood_in_lanes(const Kernel<T>& kernel, const Network& network, const Data<T>& data,
                         const Batch<T>& batch, int first, int count) {
  const size_t size = network.num_parameters;
  const int lanes = kernel.lanes, widths = network.widths;
  T* const memory = scratch<T, Use::Trajectory>(2 * Room<T>::rounded(size * lanes) +
                                                2 * Room<T>::rounded(widths * lanes));
  Room<T> room(memory);
  T *parameters = room.take(size * lanes), *gradient = room.take(size * lanes);
  T *sd = room.take(widths * lanes), *sd_gradient = room.take(widths * lanes);
  std::vector<double> value(lanes);
  to_lanes(batch.parameters, first, count, size, lanes, parameters);
  to_lanes(batch.sd, first, count, widths, lanes, sd);
  ChainEvaluation<T>(kernel, network, data)(parameters, sd, gradient, value.data(), sd_gradient);
  from_lanes(gradient, first, count, size, lanes, batch.gradient);
  from_lanes(sd_gradient, first, count, widths, lanes, batch.sd_gradient);
  for (int lane = 0; lane < count; ++lane) batch.value[first + lane] = static_cast<T>(value[lane]);
}

template <class T>
void follow_in_lanes(const Kernel<T>& kernel, const Network& network, const Data<T>& data,
                     const Prior& prior, const Trajectories<T>& batch, int first, int count) {
  const int lanes = kernel.lanes;
  const size_t size = batch.dimension, numbers = 2 * prior.num_entries;
  T* const memory = scratch<T, Use::Trajectory>(5 * Room<T>::rounded(size * lanes) +
                                                Room<T>::rounded(numbers * lanes) +
                                                Room<T>::rounded(batch.sizes * lanes) +
                                                Room<T>::rounded(network.widths * lanes) +
                                                Room<T>::rounded(lanes));
  Room<T> room(memory);
  const auto copied = [&](const T* from, size_t each) {
    T* to = room.take(each * lanes);
    to_lanes(from, first, count, each, lanes, to);
    return to;
  };
  std::vector<int32_t> steps(lanes);
  to_lanes(batch.steps, first, count, 1, lanes, steps.data());
  ChainEvaluation<T> evaluation(kernel, network, data);
  Trajectory<T> t;
  t.prior = &prior;
  t.dimension = size;
  t.numbers = copied(batch.numbers, numbers);
  t.sd = copied(batch.sd, network.widths);
  t.step_size = copied(batch.step_size, batch.sizes);
  t.own_sizes = batch.sizes != 1;
  t.steps = steps.data();
  t.position = copied(batch.position, size);
  t.momentum = copied(batch.momentum, size);
  t.gradient = copied(batch.gradient, size);
  t.log_density = copied(batch.log_density, 1);
  t.values = room.take(size * lanes);
  t.by_values = room.take(size * lanes);
  t.likelihood = ChainEvaluation<T>::call;
  t.context = &evaluation;
  kernel.follow_chains(t);
  from_lanes(t.position, first, count, size, lanes, batch.position);
  from_lanes(t.momentum, first, count, size, lanes, batch.momentum);
  from_lanes(t.gradient, first, count, size, lanes, batch.gradient);
  from_lanes(t.log_density, first, count, 1, lanes, batch.log_density);
}

template <class T>
void follow_alone(const Kernel<T>& kernel, const Network& network, const Data<T>& data,
                  const Threads& threads, const Prior& prior, const Trajectories<T>& batch,
                  int chain) {
  const size_t size = batch.dimension;
  // Padded, since whole vectors are read and written.
  const size_t padded = size + 2 * kernel.lanes;
  T* const memory = scratch<T, Use::Trajectory>(6 * Room<T>::rounded(padded));
  std::fill(memory, memory + 6 * Room<T>::rounded(padded), T(0));
  Room<T> room(memory);
  const auto copied = [&](const T* from) {
    T* to = room.take(padded);
    std::copy(from + chain * size, from + (chain + 1) * size, to);
    return to;
  };
  RowEvaluation<T> evaluation(kernel, network, data, threads);
  Trajectory<T> t;
  t.prior = &prior;
  t.dimension = size;
  t.numbers = batch.numbers + chain * 2 * prior.num_entries;
  t.sd = batch.sd + chain * network.widths;
  t.own_sizes = batch.sizes != 1;
  t.step_size = t.own_sizes ? copied(batch.step_size) : batch.step_size + chain;
  t.steps = batch.steps + chain;
  t.position = copied(batch.position);
  t.momentum = copied(batch.momentum);
  t.gradient = copied(batch.gradient);
  t.log_density = batch.log_density + chain;
  t.values = room.take(padded);
  t.by_values = room.take(padded);
  t.likelihood = RowEvaluation<T>::call;
  t.context = &evaluation;
  kernel.follow_one(t);
  std::copy(t.position, t.position + size, batch.position + chain * size);
  std::copy(t.momentum, t.momentum + size, batch.momentum + chain * size);
  std::copy(t.gradient, t.gradient + size, batch.gradient + chain * size);
}

// Run `lanes(first, count)` for groups of chains, or `alone(chain, threads)` for each.
template <class T, class Lanes, class Alone>
void over_chains(const Kernel<T>& kernel, const Data<T>& data, int chains, const Threads& threads,
                 const Lanes& lanes, const Alone& alone) {
  if (chains_along_lanes(kernel, data, chains)) {
    const int groups = (chains + kernel.lanes - 1) / kernel.lanes;
    for_each_piece(groups, threads.count, threads.schedule, [&](int group) {
      const int first = group * kernel.lanes;
      lanes(first, std::min(kernel.lanes, chains - first));
    });
    return;
  }
  const Threads none{1, {}};
  const Threads& inner = chains == 1 ? threads : none;
  for_each_piece(chains, threads.count, threads.schedule, [&](int chain) { alone(chain, inner); });
}

}  // namespace

template <class T>
void log_likelihood(const Kernel<T>& kernel, const Network& network, const Data<T>& data,
                    const Threads& threads, const Batch<T>& batch) {
  over_chains(
      kernel, data, batch.chains, threads,
      [&](int first, int count) {
        likelihood_in_lanes(kernel, network, data, batch, first, count);
      },
      [&](int chain, const Threads& own) {
        const size_t at = chain * network.num_parameters;
        double value;
        const size_t first_width = static_cast<size_t>(chain) * network.widths;
        RowEvaluation<T>(kernel, network, data, own)(batch.parameters + at, batch.sd + first_width,
                                                     batch.gradient + at, &value,
                                                     batch.sd_gradient + first_width);
        batch.value[chain] = static_cast<T>(value);
      });
}

template <class T>
void follow(const Kernel<T>& kernel, const Network& network, const Data<T>& data,
            const Threads& threads, const Prior& prior, const Trajectories<T>& batch) {
  over_chains(
      kernel, data, batch.chains, threads,
      [&](int first, int count) {
        follow_in_lanes(kernel, network, data, prior, batch, first, count);
      },
      [&](int chain, const Threads& own) {
        follow_alone(kernel, network, data, own, prior, batch, chain);
      });
}

template void log_likelihood(const Kernel<float>&, const Network&, const Data<float>&,
                             const Threads&, const Batch<float>&);
template void log_likelihood(const Kernel<double>&, const Network&, const Data<double>&,
                             const Threads&, const Batch<double>&);
template void follow(const Kernel<float>&, const Network&, const Data<float>&, const Threads&,
                     const Prior&, const Trajectories<float>&);
template void follow(const Kernel<double>&, const Network&, const Data<double>&, const Threads&,
                     const Prior&, const Trajectories<double>&);

}  // namespace tensorbnn
