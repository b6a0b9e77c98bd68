// What is computed, as plain numbers: shared by the code of every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "prior.hpp"

namespace tensorbnn {

// Whether each unit has a slope, which is a parameter.
inline bool has_slopes(Activation activation) {
  return activation == Activation::PReLU || activation == Activation::SquarePReLU;
}

// Whether the likelihood has widths of the noise.
inline bool has_widths(Likelihood likelihood) {
  return likelihood == Likelihood::Gaussian || likelihood == Likelihood::MeasuredGaussian;
}

// Rows of the array of targets: a measured one has its standard deviations after the values.
inline int num_targets(Likelihood likelihood, int outputs) {
  return likelihood == Likelihood::MeasuredGaussian ? 2 * outputs : outputs;
}

// A dense layer (where `dense`) and the activation of its outputs. The last four activations need
// what goes into them on the way back: they have a stage of their own, without a dense layer.
struct Stage {
  bool dense;
  Activation activation;
  int inputs, outputs;
  size_t weights, biases, slopes;  // where they begin among the parameters
  double slope;
};

struct Network {
  int num_stages;
  Stage stages[most_stages];
  int inputs, outputs, targets;  // targets: rows of the array of targets
  int widths;                    // of the noise: one for all outputs, or one each
  size_t num_parameters;
  Likelihood likelihood;
};

// Some rows of data, feature-major. Inputs can be read up to the next multiple of 16 rows.
template <class T>
struct Rows {
  const T* inputs;
  size_t input_stride;
  const T* targets;
  size_t target_stride;
  int count;
};

// The code of one instruction set.
//
// `rows` adds to `sum` what the likelihood leaves of some rows (for Bernoulli and Categorical the
// log-likelihood, for a Gaussian, measured or not, the squares of (target - output) / sd, one sum for
// each of the widths in `sd`) and to `gradient` that of the log-likelihood. `work` has room for
// `work_size`; `tile` vectors are worked through at once.
template <class T>
struct Kernel {
  int lanes;
  void (*rows)(const Network&, const Rows<T>&, int tile, const T* parameters, const T* sd,
               T* work, T* gradient, double* sum);
  // The same for as many chains as there are lanes: parameters, gradient, sd and sum have the
  // chains as their last axis, and the gradient, of at least one row, need not be zero before.
  void (*chains)(const Network&, const Rows<T>&, int tile, const T* parameters, const T* sd,
                 T* work, T* gradient, double* sum);
  // Whole trajectories, of one chain and of as many as there are lanes.
  void (*follow_one)(const Trajectory<T>&);
  void (*follow_chains)(const Trajectory<T>&);
};

// Numbers in the work of a tile.
inline size_t work_size(const Network& network, int tile, int lanes) {
  size_t units = network.inputs, widest = network.inputs;
  for (int s = 0; s < network.num_stages; ++s) {
    const size_t outputs = network.stages[s].outputs;
    units += outputs;
    widest = outputs > widest ? outputs : widest;
  }
  return (units + 2 * widest) * tile * lanes;
}

const Kernel<float>* avx512_single();
const Kernel<double>* avx512_double();
const Kernel<float>* avx2_single();
const Kernel<double>* avx2_double();
const Kernel<float>* portable_single();
const Kernel<double>* portable_double();

}  // namespace tensorbnn
