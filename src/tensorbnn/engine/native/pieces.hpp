// Division of work: pieces for threads, tiles for the cache. Both depend only on sizes.
#pragma once

#include <algorithm>

#include "batch.hpp"

namespace tensorbnn {

// Activations of a tile take at most about this many bytes, to stay in the second-level cache, and
// at most this many vectors, above which nothing gets faster (both measured).
constexpr size_t tile_bytes = 800 * 1024;
constexpr int most_tile_vectors = 24;
// Parameters times rows that are worth another thread (about 20 microseconds).
constexpr int64_t piece_work = 250'000;
// Vectors of rows that are worth a separate gradient, which is added at the end.
constexpr int64_t piece_vectors = 12;
constexpr int most_pieces = 16;
// A piece of the data: vectors `first` to `last`, counted through tiles and rest.
template <class T>
class Pieces {
 public:
  Pieces(const Network& network, const Data<T>& data, int lanes) : data_(data), lanes_(lanes) {
    tile_vectors_ = (data.tile_rows + lanes - 1) / lanes;
    vectors_ = static_cast<int64_t>(data.tiles) * tile_vectors_ +
               (data.rest.count + lanes - 1) / lanes;
    const int64_t work = static_cast<int64_t>(network.num_parameters) * data.rows();
    count_ = 1;
    while (count_ < most_pieces && work >= piece_work * 2 * count_ &&
           vectors_ >= piece_vectors * 2 * count_)
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
  const size_t each = work_size(network, 1, kernel.lanes) * sizeof(T);
  int64_t tile = static_cast<int64_t>(tile_bytes / each) / 4 * 4;
  tile = std::min<int64_t>(std::max<int64_t>(tile, 4), most_tile_vectors);
  return static_cast<int>(std::max<int64_t>(std::min(tile, vectors), 1));
}

}  // namespace tensorbnn
