// The vector type: one set of names for every instruction set.
//
// A file that is compiled for an instruction set defines TENSORBNN_ISA (a name) and
// TENSORBNN_VECTOR_BYTES before it includes this. Arithmetic uses the compiler's vector extension;
// intrinsics are used only for what it lacks. Everything is in an anonymous namespace: code
// compiled for a newer instruction set must never be linked instead of portable code. For the same
// reason, templates of the standard library are not used here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define TENSORBNN_INLINE inline __attribute__((always_inline))

namespace tensorbnn {
namespace TENSORBNN_ISA {
namespace {

template <class T>
struct Types;

template <>
struct Types<float> {
  typedef float Vector __attribute__((vector_size(TENSORBNN_VECTOR_BYTES)));
  typedef float Loose __attribute__((vector_size(TENSORBNN_VECTOR_BYTES), aligned(4), may_alias));
  typedef int32_t Integers __attribute__((vector_size(TENSORBNN_VECTOR_BYTES)));
  typedef int32_t Integer;
  static constexpr int mantissa = 23, bias = 127;
};

template <>
struct Types<double> {
  typedef double Vector __attribute__((vector_size(TENSORBNN_VECTOR_BYTES)));
  typedef double Loose __attribute__((vector_size(TENSORBNN_VECTOR_BYTES), aligned(8), may_alias));
  typedef int64_t Integers __attribute__((vector_size(TENSORBNN_VECTOR_BYTES)));
  typedef int64_t Integer;
  static constexpr int mantissa = 52, bias = 1023;
};

template <class T>
using Vector = typename Types<T>::Vector;
template <class T>
using Integers = typename Types<T>::Integers;

template <class T>
constexpr int lanes = TENSORBNN_VECTOR_BYTES / static_cast<int>(sizeof(T));

template <class T>
TENSORBNN_INLINE Vector<T> load(const T* from) {
  return *reinterpret_cast<const typename Types<T>::Loose*>(from);
}

template <class T>
TENSORBNN_INLINE void store(T* to, Vector<T> value) {
  *reinterpret_cast<typename Types<T>::Loose*>(to) = value;
}

// The first `count` lanes from memory, zero in the others.
template <class T>
TENSORBNN_INLINE Vector<T> load_some(const T* from, int count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return (Vector<T>)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
#endif
  T all[lanes<T>] = {};
  for (int lane = 0; lane < count; ++lane) all[lane] = from[lane];
  return load<T>(all);
}

template <class T>
TENSORBNN_INLINE Vector<T> broadcast(T value) {
  return value - Vector<T>{};
}

// Lane numbers 0, 1, ...
template <class T>
TENSORBNN_INLINE Integers<T> lane_numbers() {
  Integers<T> result;
  for (int lane = 0; lane < lanes<T>; ++lane) result[lane] = lane;
  return result;
}

// `value` in the first `count` lanes, zero in the others.
template <class T>
TENSORBNN_INLINE Vector<T> keep_first(Vector<T> value, int count) {
  return lane_numbers<T>() < static_cast<typename Types<T>::Integer>(count) ? value : Vector<T>{};
}

template <class T>
TENSORBNN_INLINE Vector<T> absolute(Vector<T> value) {
  constexpr typename Types<T>::Integer sign =
      static_cast<typename Types<T>::Integer>(1) << (sizeof(T) * 8 - 2);
  return (Vector<T>)((Integers<T>)value & (sign | (sign - 1)));
}

template <class T>
TENSORBNN_INLINE Vector<T> larger(Vector<T> a, Vector<T> b) {
  return a > b ? a : b;
}

// `value`, clipped to the bounds; NaN is kept, which depends on the order of the arguments.
template <class T>
TENSORBNN_INLINE Vector<T> clamp(Vector<T> value, T least, T most) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    const __m512 below = _mm512_maskz_min_ps(0xffff, (__m512)broadcast<T>(most), (__m512)value);
    return (Vector<T>)_mm512_maskz_max_ps(0xffff, (__m512)broadcast<T>(least), below);
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) {
    const __m256 below = _mm256_min_ps((__m256)broadcast<T>(most), (__m256)value);
    return (Vector<T>)_mm256_max_ps((__m256)broadcast<T>(least), below);
  }
#endif
  value = value > most ? broadcast<T>(most) : value;
  return value < least ? broadcast<T>(least) : value;
}

// 1 / x to about one rounding, for x well inside the range of T.
template <class T>
TENSORBNN_INLINE Vector<T> reciprocal(Vector<T> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4 && TENSORBNN_VECTOR_BYTES == 64) {
    const Vector<T> r = (Vector<T>)_mm512_maskz_rcp14_ps(0xffff, (__m512)x);
    return r + r * (T(1) - x * r);
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4 && TENSORBNN_VECTOR_BYTES == 32) {
    // Of 12 bits; after one step 1 / 1 would be below 1, and a saturated sigmoid would have a
    // slope.
    Vector<T> r = (Vector<T>)_mm256_rcp_ps((__m256)x);
    r += r * (T(1) - x * r);
    return r + r * (T(1) - x * r);
  }
#endif
  return T(1) / x;
}

// (a0, b0, a1, b1, ...), with a0 and b0 from lane `First`.
template <class T, int First, int... Lane>
TENSORBNN_INLINE Vector<T> interleave(Vector<T> a, Vector<T> b,
                                      std::integer_sequence<int, Lane...>) {
#if defined(__clang__)
  return __builtin_shufflevector(a, b, (First + Lane / 2 + Lane % 2 * lanes<T>)...);
#else
  return __builtin_shuffle(a, b, Integers<T>{(First + Lane / 2 + Lane % 2 * lanes<T>)...});
#endif
}

template <class T>
TENSORBNN_INLINE Vector<T> interleave_low(Vector<T> a, Vector<T> b) {
  return interleave<T, 0>(a, b, std::make_integer_sequence<int, lanes<T>>{});
}

template <class T>
TENSORBNN_INLINE Vector<T> interleave_high(Vector<T> a, Vector<T> b) {
  return interleave<T, lanes<T> / 2>(a, b, std::make_integer_sequence<int, lanes<T>>{});
}

// Lane k of the result is the sum over the lanes of vectors[k]. Overwrites its argument.
template <class T>
TENSORBNN_INLINE Vector<T> sums_of_lanes(Vector<T> (&vectors)[lanes<T>]) {
#pragma GCC unroll 4
  for (int half = lanes<T> / 2; half > 0; half /= 2)
#pragma GCC unroll 16
    for (int i = 0; i < half; ++i)
      vectors[i] = interleave_low<T>(vectors[i], vectors[i + half]) +
                   interleave_high<T>(vectors[i], vectors[i + half]);
  return vectors[0];
}

// Transpose a square of lanes by log2(side) perfect shuffles.
template <class T>
TENSORBNN_INLINE void transpose(Vector<T> (&rows)[lanes<T>]) {
  constexpr int half = lanes<T> / 2;
#pragma GCC unroll 4
  for (int level = lanes<T>; level > 1; level /= 2) {
    Vector<T> next[lanes<T>];
#pragma GCC unroll 16
    for (int i = 0; i < half; ++i) {
      next[2 * i] = interleave_low<T>(rows[i], rows[i + half]);
      next[2 * i + 1] = interleave_high<T>(rows[i], rows[i + half]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < lanes<T>; ++i) rows[i] = next[i];
  }
}

template <class T>
TENSORBNN_INLINE double sum(Vector<T> value) {
  double even = 0, odd = 0;
  for (int lane = 0; lane < lanes<T>; lane += 2) {
    even += static_cast<double>(value[lane]);
    odd += static_cast<double>(value[lane + 1]);
  }
  return even + odd;
}

}  // namespace
}  // namespace TENSORBNN_ISA
}  // namespace tensorbnn
