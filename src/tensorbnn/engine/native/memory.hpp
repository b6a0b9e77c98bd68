// Memory of a thread, and transposition of arrays into lanes and back.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <new>

namespace tensorbnn {

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

enum class Use { Evaluation, Trajectory };

template <class T, Use use = Use::Evaluation>
T* scratch(size_t count) {
  thread_local Scratch<T> memory;
  return memory.get(count);
}

// Chains `first` to `first + count` of `(chains, size)` to `(size, lanes)`, and back. Unused lanes
// repeat the last chain.
template <class T>
void to_lanes(const T* from, int first, int count, size_t size, int lanes, T* to) {
  for (int lane = 0; lane < lanes; ++lane) {
    const T* chain = from + (first + std::min(lane, count - 1)) * size;
    for (size_t i = 0; i < size; ++i) to[i * lanes + lane] = chain[i];
  }
}

template <class T>
void from_lanes(const T* from, int first, int count, size_t size, int lanes, T* to) {
  for (int lane = 0; lane < count; ++lane)
    for (size_t i = 0; i < size; ++i) to[(first + lane) * size + i] = from[i * lanes + lane];
}

// Allocates parts of one array, each aligned to a cache line.
template <class T>
class Room {
 public:
  explicit Room(T* begin) : at_(begin) {}
  static size_t rounded(size_t count) {
    constexpr size_t line = 64 / sizeof(T);
    return (count + line - 1) / line * line;
  }
  T* take(size_t count) {
    T* const taken = at_;
    at_ += rounded(count);
    return taken;
  }

 private:
  T* at_;
};

}  // namespace tensorbnn
