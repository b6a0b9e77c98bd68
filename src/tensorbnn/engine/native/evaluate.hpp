// Sum and gradient of a likelihood over some rows: forward pass, likelihood and backward pass, tile
// by tile, so that activations stay in the cache.
#pragma once

#include "activations.hpp"
#include "likelihoods.hpp"

namespace tensorbnn {
namespace TENSORBNN_ISA {
namespace {

template <class T, bool Chains>
class Evaluation {
 public:
  Evaluation(const Network& network, const Rows<T>& rows, int tile, const T* parameters, T* work,
             T* gradient)
      : network_(network), rows_(rows), parameters_(parameters), gradient_(gradient),
        stride_(static_cast<size_t>(tile) * lanes<T>) {
    for (int s = 0; s < network.num_stages; ++s) {
      outputs_[s] = work;
      work += network.stages[s].outputs * stride_;
    }
    inputs_ = work;
    size_t widest = network.inputs;
    for (int s = 0; s < network.num_stages; ++s)
      if (static_cast<size_t>(network.stages[s].outputs) > widest)
        widest = network.stages[s].outputs;
    d_ = work + network.inputs * stride_;
    other_ = d_ + widest * stride_;
  }

  // `noise` are the sds of a Gaussian, or the factors of a MeasuredGaussian.
  void tile(int first, int vectors, const Noise<T, Chains>& noise) {
    constexpr int rows_per_vector = Chains ? 1 : lanes<T>;
    vectors_ = vectors;
    begin_ = Chains && first == 0;
    first_row_ = first * rows_per_vector;
    const int left = rows_.count - first_row_, most = vectors * rows_per_vector;
    num_rows_ = left < most ? left : most;
    take_inputs();
    for (int s = 0; s < network_.num_stages; ++s) forward(s);
    judge(noise);
    if (!Chains && num_rows_ % lanes<T>) clear_padding();
    for (int s = network_.num_stages - 1; s >= 0; --s) backward(s);
  }

 private:
  Shape shape(int units) const { return {units, vectors_, stride_}; }

  // Rows along the lanes are read in place.
  void take_inputs() {
    input_ = rows_.inputs + first_row_;
    input_stride_ = rows_.input_stride;
    if constexpr (Chains) {
      for (int i = 0; i < network_.inputs; ++i)
        for (int n = 0; n < vectors_; ++n)
          store(inputs_ + i * stride_ + n * lanes<T>,
                broadcast<T>(input_[i * input_stride_ + n]));
      input_ = inputs_;
      input_stride_ = stride_;
    }
  }

  const T* before(int s) const { return s ? outputs_[s - 1] : input_; }
  size_t stride_before(int s) const { return s ? stride_ : input_stride_; }

  void forward(int s) {
    const Stage& stage = network_.stages[s];
    const T* in = before(s);
    size_t in_stride = stride_before(s);
    if (stage.dense) {
      constexpr size_t wide = step<T, Chains>;
      product<T, Chains>({parameters_ + stage.weights * wide, static_cast<size_t>(stage.outputs),
                          1, parameters_ + stage.biases * wide, in, in_stride, outputs_[s],
                          stride_, stage.inputs, stage.outputs, vectors_});
      in = outputs_[s];
      in_stride = stride_;
    }
    activate<T, Chains>(stage, shape(stage.outputs), parameters_, in, in_stride, outputs_[s]);
  }

  // The likelihood of all outputs together, or one by one if each has its own noise.
  void judge(const Noise<T, Chains>& noise) {
    const T* const f = outputs_[network_.num_stages - 1];
    const Targets<T, Chains> targets{rows_.targets + first_row_, rows_.target_stride, num_rows_,
                                     network_.outputs};
    const int at_once = noise.own ? 1 : network_.outputs;
    for (int j = 0; j < network_.outputs; j += at_once)
      noise.add(j, likelihood<T, Chains>(network_.likelihood, shape(at_once), targets.from(j),
                                         f + j * stride_, noise.width(j), d_ + j * stride_));
  }

  // Lanes beyond the last row hold copies of it. An infinity there, times their gradient of zero,
  // would be NaN.
  void clear_padding() {
    const int count = num_rows_ % lanes<T>;
    for (int s = 0; s < network_.num_stages; ++s)
      for (int j = 0; j < network_.stages[s].outputs; ++j) {
        T* at = outputs_[s] + j * stride_ + (vectors_ - 1) * lanes<T>;
        store(at, keep_first<T>(load(at), count));
      }
  }

  void backward(int s) {
    const Stage& stage = network_.stages[s];
    const T* in = before(s);
    constexpr size_t wide = step<T, Chains>;
    T* const biases = stage.dense ? gradient_ + stage.biases * wide : nullptr;
    activate_back<T, Chains>(stage, shape(stage.outputs), parameters_, in, stride_before(s),
                             outputs_[s], d_, {gradient_, biases, begin_});
    if (!stage.dense) return;
    add_weights(stage, in, stride_before(s));
    if (s == 0) return;
    product<T, Chains>({parameters_ + stage.weights * wide, 1, static_cast<size_t>(stage.outputs),
                        nullptr, d_, stride_, other_, stride_, stage.outputs, stage.inputs,
                        vectors_});
    T* const swapped = d_;
    d_ = other_;
    other_ = swapped;
  }

  void add_weights(const Stage& stage, const T* in, size_t in_stride) {
    constexpr size_t wide = step<T, Chains>;
    const Outer<T> o{in, in_stride, d_, stride_, gradient_ + stage.weights * wide, stage.inputs,
                     stage.outputs, vectors_, begin_};
    T* bias = gradient_ + stage.biases * wide;
    if constexpr (Chains) {
      outer<T, Chains>(o);
    } else if (vectors_ <= 2 && stage.outputs > 1) {
      outer_of_few<T>(o, num_rows_, bias);
    } else {
      outer<T, Chains>(o);
      add_biases(stage.outputs, bias);
    }
  }

  void add_biases(int outputs, T* bias) const {
    for (int j0 = 0; j0 < outputs; j0 += lanes<T>) {
      const int units = outputs - j0 < lanes<T> ? outputs - j0 : lanes<T>;
      Vector<T> totals[lanes<T>] = {};
      for (int j = 0; j < units; ++j) totals[j] = sum_of_rows(j0 + j);
      add_some(bias + j0, sums_of_lanes<T>(totals), units);
    }
  }

  TENSORBNN_INLINE Vector<T> sum_of_rows(int unit) const {
    Vector<T> total = {};
    for (int n = 0; n < vectors_; ++n) total += load(d_ + unit * stride_ + n * lanes<T>);
    return total;
  }

  const Network& network_;
  const Rows<T>& rows_;
  const T* parameters_;
  T* gradient_;
  size_t stride_;
  T* outputs_[most_stages];
  T *inputs_, *d_, *other_;
  const T* input_ = nullptr;
  size_t input_stride_ = 0;
  int vectors_ = 0, first_row_ = 0, num_rows_ = 0;
  bool begin_ = false;
};

template <class T, bool Chains>
void evaluate(const Network& network, const Rows<T>& rows, int tile, const T* parameters,
              const T* sd, T* work, T* gradient, double* total) {
  Evaluation<T, Chains> evaluation(network, rows, tile, parameters, work, gradient);
  const Noise<T, Chains> noise{sd, total, network.widths > 1};
  const int vectors = Chains ? rows.count : (rows.count + lanes<T> - 1) / lanes<T>;
  for (int first = 0; first < vectors; first += tile)
    evaluation.tile(first, vectors - first < tile ? vectors - first : tile, noise);
}

}  // namespace
}  // namespace TENSORBNN_ISA
}  // namespace tensorbnn
