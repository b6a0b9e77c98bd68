// Activations over a tile, forward and backward.
#pragma once

#include "functions.hpp"
#include "network.hpp"
#include "tiles.hpp"

namespace tensorbnn {
namespace TENSORBNN_ISA {
namespace {

// A tile of activations: `units` rows of `vectors` vectors.
struct Shape {
  int units, vectors;
  size_t stride;
};

template <class T, class Function>
TENSORBNN_INLINE void map(const Shape& shape, const T* in, size_t in_stride, T* out, Function f) {
  for (int j = 0; j < shape.units; ++j)
    for (int n = 0; n < shape.vectors; ++n)
      store(out + j * shape.stride + n * lanes<T>, f(load(in + j * in_stride + n * lanes<T>)));
}

// Destinations of gradients in the backward pass. With chains in the lanes, sums over rows are
// added to `biases` directly; for a single chain, which also sums over lanes, `Evaluation` does
// that.
template <class T>
struct Gradients {
  T* all;
  T* biases;   // or null
  bool begin;  // as in `add_or_begin`
};

// d <- d times the derivative, which is a function of the activation's output h.
template <class T, bool Chains, class Function>
TENSORBNN_INLINE void pull_back(const Shape& shape, const T* h, T* d, const Gradients<T>& to,
                                Function f) {
  for (int j = 0; j < shape.units; ++j) {
    Vector<T> total = {};
    for (int n = 0; n < shape.vectors; ++n) {
      T* at = d + j * shape.stride + n * lanes<T>;
      const Vector<T> back = f(load(h + j * shape.stride + n * lanes<T>), load(at));
      store(at, back);
      if constexpr (Chains) total += back;
    }
    if constexpr (Chains)
      if (to.biases) add_or_begin(to.biases + j * lanes<T>, total, to.begin);
  }
}

// The same for the identity: d is unchanged.
template <class T, bool Chains>
void pass_back(const Shape& shape, const T* d, const Gradients<T>& to) {
  if (!Chains || !to.biases) return;
  for (int j = 0; j < shape.units; ++j) {
    Vector<T> total = {};
    for (int n = 0; n < shape.vectors; ++n) total += load(d + j * shape.stride + n * lanes<T>);
    add_or_begin(to.biases + j * lanes<T>, total, to.begin);
  }
}

template <class T, bool Chains>
TENSORBNN_INLINE Vector<T> slope_of(const Stage& stage, const T* parameters, int unit) {
  if (stage.activation == Activation::Sloped) return broadcast<T>(static_cast<T>(stage.slope));
  const size_t index = stage.slopes + unit;
  const Vector<T> slope = parameter<T, Chains>(parameters + index * step<T, Chains>);
  return stage.activation == Activation::SquarePReLU ? slope * slope : slope;
}

template <class T, bool Chains>
void sloped(const Stage& stage, const Shape& shape, const T* parameters, const T* in,
            size_t in_stride, T* out) {
  for (int j = 0; j < shape.units; ++j) {
    const Vector<T> slope = slope_of<T, Chains>(stage, parameters, j);
    for (int n = 0; n < shape.vectors; ++n) {
      const Vector<T> z = load(in + j * in_stride + n * lanes<T>);
      store(out + j * shape.stride + n * lanes<T>, z > T(0) ? z : slope * z);
    }
  }
}

template <class T, bool Chains>
void sloped_back(const Stage& stage, const Shape& shape, const T* parameters, const T* in,
                 size_t in_stride, T* d, const Gradients<T>& to) {
  for (int j = 0; j < shape.units; ++j) {
    const Vector<T> slope = slope_of<T, Chains>(stage, parameters, j);
    Vector<T> total = {};
    for (int n = 0; n < shape.vectors; ++n) {
      const Vector<T> z = load(in + j * in_stride + n * lanes<T>);
      T* at = d + j * shape.stride + n * lanes<T>;
      const Vector<T> above = z > T(0) ? load(at) : Vector<T>{};
      const Vector<T> below = z > T(0) ? Vector<T>{} : load(at);
      total += below * z;
      store(at, above + slope * below);
    }
    if (stage.activation == Activation::Sloped) continue;
    const size_t index = (stage.slopes + j) * step<T, Chains>;
    if (stage.activation == Activation::SquarePReLU)
      total = total * (T(2) * parameter<T, Chains>(parameters + index));
    if constexpr (Chains)
      add_or_begin(to.all + index, total, to.begin);
    else
      to.all[index] += static_cast<T>(sum<T>(total));
  }
}

template <class T>
void softmax(const Shape& shape, const T* in, size_t in_stride, T* out) {
  for (int n = 0; n < shape.vectors; ++n) {
    const T* z = in + n * lanes<T>;
    T* h = out + n * lanes<T>;
    Vector<T> largest = load(z);
    for (int j = 1; j < shape.units; ++j) largest = larger<T>(load(z + j * in_stride), largest);
    Vector<T> total = {};
    for (int j = 0; j < shape.units; ++j) {
      const Vector<T> e = exp<T>(load(z + j * in_stride) - largest);
      store(h + j * shape.stride, e);
      total += e;
    }
    for (int j = 0; j < shape.units; ++j)
      store(h + j * shape.stride, load(h + j * shape.stride) / total);
  }
}

template <class T>
void softmax_back(const Shape& shape, const T* out, T* gradient) {
  for (int n = 0; n < shape.vectors; ++n) {
    const T* h = out + n * lanes<T>;
    T* d = gradient + n * lanes<T>;
    Vector<T> mean = {};
    for (int j = 0; j < shape.units; ++j)
      mean += load(h + j * shape.stride) * load(d + j * shape.stride);
    for (int j = 0; j < shape.units; ++j)
      store(d + j * shape.stride, load(h + j * shape.stride) * (load(d + j * shape.stride) - mean));
  }
}

// out = activation(in); `in` may be `out`.
template <class T, bool Chains>
void activate(const Stage& stage, const Shape& shape, const T* parameters, const T* in,
              size_t in_stride, T* out) {
  using V = Vector<T>;
  const T slope = static_cast<T>(stage.slope);
  switch (stage.activation) {
    case Activation::Identity:
      if (in == out) return;
      return map(shape, in, in_stride, out, [](V z) { return z; });
    case Activation::Tanh: return map(shape, in, in_stride, out, [](V z) { return tanh<T>(z); });
    case Activation::Sigmoid:
      return map(shape, in, in_stride, out, [](V z) { return sigmoid<T>(z); });
    case Activation::Exp: return map(shape, in, in_stride, out, [](V z) { return exp<T>(z); });
    case Activation::ReLU:  // in this order, NaN is kept
      return map(shape, in, in_stride, out, [](V z) -> V { return z <= T(0) ? V{} : z; });
    case Activation::ELU:
      return map(shape, in, in_stride, out, [](V z) -> V {
        const V below = z > T(0) ? V{} : z;
        return z > T(0) ? z : expm1_of_negative<T>(below);
      });
    case Activation::LeakyReLU:
      return map(shape, in, in_stride, out, [=](V z) -> V { return z > T(0) ? z : slope * z; });
    case Activation::Softmax: return softmax(shape, in, in_stride, out);
    default: return sloped<T, Chains>(stage, shape, parameters, in, in_stride, out);
  }
}

// d, the gradient by the outputs, becomes that by the inputs; gradients by slopes are added.
template <class T, bool Chains>
void activate_back(const Stage& stage, const Shape& shape, const T* parameters, const T* in,
                   size_t in_stride, const T* out, T* d, const Gradients<T>& to) {
  using V = Vector<T>;
  const T slope = static_cast<T>(stage.slope);
  const auto pull = [&](auto f) { pull_back<T, Chains>(shape, out, d, to, f); };
  switch (stage.activation) {
    case Activation::Identity: return pass_back<T, Chains>(shape, d, to);
    case Activation::Tanh: return pull([](V h, V g) { return g - g * (h * h); });
    case Activation::Sigmoid: return pull([](V h, V g) { return g * h * (T(1) - h); });
    case Activation::Exp: return pull([](V h, V g) { return g * h; });
    case Activation::ReLU: return pull([](V h, V g) -> V { return h > T(0) ? g : V{}; });
    case Activation::ELU:
      return pull([](V h, V g) -> V { return h > T(0) ? g : g * (h + T(1)); });
    case Activation::LeakyReLU:
      return pull([=](V h, V g) -> V { return h > T(0) ? g : slope * g; });
    case Activation::Softmax: return softmax_back(shape, out, d);
    default:
      return sloped_back<T, Chains>(stage, shape, parameters, in, in_stride, d, to);
  }
}

}  // namespace
}  // namespace TENSORBNN_ISA
}  // namespace tensorbnn
