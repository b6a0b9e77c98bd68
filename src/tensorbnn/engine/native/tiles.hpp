// Products of matrices over a tile of rows, in blocks that stay in registers.
//
// Activations are `(units, vectors)`: rows of data along the lanes, or, with `Chains`, one chain
// per lane and one vector per row of data. Parameters are then vectors, too, with one chain per
// lane.
#pragma once

#include "vector.hpp"

namespace tensorbnn {
namespace TENSORBNN_ISA {
namespace {

#if TENSORBNN_VECTOR_BYTES == 64  // 32 registers
constexpr int block_units = 5, block_vectors = 4, gradient_block = 5;
#else  // 16 registers
constexpr int block_units = 5, block_vectors = 2, gradient_block = 3;
#endif

// Numbers per parameter.
template <class T, bool Chains>
constexpr size_t step = Chains ? lanes<T> : 1;

template <class T, bool Chains>
TENSORBNN_INLINE Vector<T> parameter(const T* at) {
  if constexpr (Chains)
    return load(at);
  else
    return broadcast(*at);
}

// out[j] = bias[j] + sum_i weights(i, j) in[i], over `vectors` vectors.
template <class T>
struct Product {
  const T* weights;
  size_t in_step, out_step;  // from one weight to the next along i and j
  const T* bias;             // or null
  const T* in;
  size_t in_stride;
  T* out;
  size_t out_stride;
  int inputs, outputs, vectors;
};

template <class T, bool Chains, int J, int N>
TENSORBNN_INLINE void product_block(const Product<T>& p, int j0, int n0) {
  constexpr size_t wide = step<T, Chains>;
  Vector<T> sums[J][N];
#pragma GCC unroll 10
  for (int j = 0; j < J; ++j)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n)
      sums[j][n] = p.bias ? parameter<T, Chains>(p.bias + (j0 + j) * wide) : Vector<T>{};
  const T* in = p.in + n0 * lanes<T>;
  const T* weights = p.weights + j0 * p.out_step * wide;
  for (int i = 0; i < p.inputs; ++i, in += p.in_stride, weights += p.in_step * wide) {
    Vector<T> h[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) h[n] = load(in + n * lanes<T>);
#pragma GCC unroll 10
    for (int j = 0; j < J; ++j) {
      const Vector<T> weight = parameter<T, Chains>(weights + j * p.out_step * wide);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sums[j][n] += weight * h[n];
    }
  }
  T* out = p.out + j0 * p.out_stride + n0 * lanes<T>;
#pragma GCC unroll 10
  for (int j = 0; j < J; ++j)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) store(out + j * p.out_stride + n * lanes<T>, sums[j][n]);
}

template <class T, bool Chains, int J>
void product_strip(const Product<T>& p, int j0) {
  int n = 0;
  for (; n + block_vectors <= p.vectors; n += block_vectors)
    product_block<T, Chains, J, block_vectors>(p, j0, n);
  switch (p.vectors - n) {
    case 3: return product_block<T, Chains, J, 3>(p, j0, n);
    case 2: return product_block<T, Chains, J, 2>(p, j0, n);
    case 1: return product_block<T, Chains, J, 1>(p, j0, n);
  }
}

template <class T, bool Chains>
void product(const Product<T>& p) {
  int j = 0;
  if (p.vectors == 1)  // more units at once, so that there is enough to do
    for (; j + 2 * block_units <= p.outputs; j += 2 * block_units)
      product_block<T, Chains, 2 * block_units, 1>(p, j, 0);
  for (; j + block_units <= p.outputs; j += block_units)
    product_strip<T, Chains, block_units>(p, j);
  switch (p.outputs - j) {
    case 4: return product_strip<T, Chains, 4>(p, j);
    case 3: return product_strip<T, Chains, 3>(p, j);
    case 2: return product_strip<T, Chains, 2>(p, j);
    case 1: return product_strip<T, Chains, 1>(p, j);
  }
}

// Add to a number of each chain, or start its sum.
template <class T>
TENSORBNN_INLINE void add_or_begin(T* at, Vector<T> value, bool begin) {
  store(at, begin ? value : load(at) + value);
}

// gradient(i, j) += sum over rows of h[i] d[j]; gradient is (inputs, outputs). If chains `begin`,
// it is not initialized.
template <class T>
struct Outer {
  const T* h;
  size_t h_stride;
  const T* d;
  size_t d_stride;
  T* gradient;
  int inputs, outputs, vectors;
  bool begin;
};

// Add the sums over lanes of `count` vectors to as many numbers, found by `at`.
template <class T, int Count, class At>
TENSORBNN_INLINE void add_lane_sums(Vector<T> (&sums)[Count], At at) {
#pragma GCC unroll 8
  for (int first = 0; first < Count; first += lanes<T>) {
    Vector<T> some[lanes<T>];
#pragma GCC unroll 16
    for (int k = 0; k < lanes<T>; ++k) some[k] = first + k < Count ? sums[first + k] : Vector<T>{};
    const Vector<T> totals = sums_of_lanes<T>(some);
    alignas(64) T found[lanes<T>];
    store(found, totals);
#pragma GCC unroll 16
    for (int k = 0; k < lanes<T>; ++k)
      if (first + k < Count) *at(first + k) += found[k];
  }
}

// A separate function, since inlined its sums would not all stay in registers.
template <class T, bool Chains, int I, int J>
__attribute__((noinline)) void outer_block(const Outer<T>& o, int i0, int j0) {
  Vector<T> sums[I * J] = {};
  const T* h = o.h + i0 * o.h_stride;
  const T* d = o.d + j0 * o.d_stride;
  for (int n = 0; n < o.vectors; ++n, h += lanes<T>, d += lanes<T>) {
    Vector<T> right[J];
#pragma GCC unroll 5
    for (int j = 0; j < J; ++j) right[j] = load(d + j * o.d_stride);
#pragma GCC unroll 10
    for (int i = 0; i < I; ++i) {
      const Vector<T> left = load(h + i * o.h_stride);
#pragma GCC unroll 5
      for (int j = 0; j < J; ++j) sums[i * J + j] += left * right[j];
    }
  }
  T* gradient = o.gradient;
  const size_t outputs = o.outputs;
  if constexpr (Chains) {
#pragma GCC unroll 25
    for (int k = 0; k < I * J; ++k)
      add_or_begin(gradient + ((i0 + k / J) * outputs + j0 + k % J) * lanes<T>, sums[k], o.begin);
  } else {
    add_lane_sums<T>(sums, [&](int k) { return gradient + (i0 + k / J) * outputs + j0 + k % J; });
  }
}

template <class T, bool Chains, int I>
void outer_strip(const Outer<T>& o, int i0) {
  int j = 0;
  for (; j + gradient_block <= o.outputs; j += gradient_block)
    outer_block<T, Chains, I, gradient_block>(o, i0, j);
  switch (o.outputs - j) {
    case 4: return outer_block<T, Chains, I, 4>(o, i0, j);
    case 3: return outer_block<T, Chains, I, 3>(o, i0, j);
    case 2: return outer_block<T, Chains, I, 2>(o, i0, j);
    case 1: return outer_block<T, Chains, I, 1>(o, i0, j);
  }
}

template <class T, bool Chains>
void outer(const Outer<T>& o) {
  int i = 0;
  if (o.outputs == 1)  // more units at once, so that there is enough to do
    for (; i + 2 * gradient_block <= o.inputs; i += 2 * gradient_block)
      outer_block<T, Chains, 2 * gradient_block, 1>(o, i, 0);
  for (; i + gradient_block <= o.inputs; i += gradient_block)
    outer_strip<T, Chains, gradient_block>(o, i);
  switch (o.inputs - i) {
    case 4: return outer_strip<T, Chains, 4>(o, i);
    case 3: return outer_strip<T, Chains, 3>(o, i);
    case 2: return outer_strip<T, Chains, 2>(o, i);
    case 1: return outer_strip<T, Chains, 1>(o, i);
  }
}

// Store the first `count` lanes.
template <class T>
TENSORBNN_INLINE void store_some(T* to, Vector<T> value, int count) {
  if (count == lanes<T>) return store(to, value);
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), (__m512)value);
#endif
  for (int lane = 0; lane < count; ++lane) to[lane] = value[lane];
}

// Add the first `count` lanes to memory.
template <class T>
TENSORBNN_INLINE void add_some(T* to, Vector<T> value, int count) {
  store_some(to, load_some(to, count) + value, count);
}

// gradient(i, :) += sum over rows of h(i, row) d(row, :) for I units of h and one vector of d's.
// Reads everything before it writes, because a read that overlaps a recent write has to wait.
template <class T, int I>
TENSORBNN_INLINE void few_rows(const T* h, size_t h_stride, const T* by_row, int rows, T* gradient,
                               size_t outputs, int units) {
  Vector<T> sums[I];
#pragma GCC unroll 10
  for (int i = 0; i < I; ++i) sums[i] = load_some(gradient + i * outputs, units);
  for (int row = 0; row < rows; ++row) {
    const Vector<T> d = load(by_row + row * lanes<T>);
#pragma GCC unroll 10
    for (int i = 0; i < I; ++i) sums[i] += h[i * h_stride + row] * d;
  }
#pragma GCC unroll 10
  for (int i = 0; i < I; ++i) store_some(gradient + i * outputs, sums[i], units);
}

// As `outer`, with sums over rows of d in `bias`, for so few rows that summing over lanes would be
// most of the work: d is transposed, so its units are along the lanes.
template <class T>
void outer_of_few(const Outer<T>& o, int rows, T* bias) {
  for (int v = 0; v * lanes<T> < rows; ++v) {
    const int count = rows - v * lanes<T> < lanes<T> ? rows - v * lanes<T> : lanes<T>;
    for (int j0 = 0; j0 < o.outputs; j0 += lanes<T>) {
      const int units = o.outputs - j0 < lanes<T> ? o.outputs - j0 : lanes<T>;
      Vector<T> d[lanes<T>];
#pragma GCC unroll 16
      for (int j = 0; j < lanes<T>; ++j)
        d[j] = j < units ? load(o.d + (j0 + j) * o.d_stride + v * lanes<T>) : Vector<T>{};
      transpose<T>(d);
      alignas(64) T by_row[lanes<T> * lanes<T>];
      Vector<T> total = {};
#pragma GCC unroll 16
      for (int row = 0; row < lanes<T>; ++row) {
        store(by_row + row * lanes<T>, d[row]);
        total += d[row];
      }
      add_some(bias + j0, total, units);
      const T* h = o.h + v * lanes<T>;
      T* gradient = o.gradient + j0;
      int i = 0;
      for (; i + 10 <= o.inputs; i += 10, h += 10 * o.h_stride, gradient += 10 * o.outputs)
        few_rows<T, 10>(h, o.h_stride, by_row, count, gradient, o.outputs, units);
      for (; i + 4 <= o.inputs; i += 4, h += 4 * o.h_stride, gradient += 4 * o.outputs)
        few_rows<T, 4>(h, o.h_stride, by_row, count, gradient, o.outputs, units);
      for (; i < o.inputs; ++i, h += o.h_stride, gradient += o.outputs)
        few_rows<T, 1>(h, o.h_stride, by_row, count, gradient, o.outputs, units);
    }
  }
}

}  // namespace
}  // namespace TENSORBNN_ISA
}  // namespace tensorbnn
