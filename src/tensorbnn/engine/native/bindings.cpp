// The functions that XLA calls.
#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>

#include "batch.hpp"
#include "dispatch.hpp"
#include "threads.hpp"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace tensorbnn {
namespace {

template <class T>
constexpr ffi::DataType data_type = std::is_same_v<T, float> ? ffi::F32 : ffi::F64;
template <class T>
using In = ffi::Buffer<data_type<T>>;
template <class T>
using Out = ffi::ResultBuffer<data_type<T>>;

// Four numbers per stage: dense, activation, inputs, outputs. Parameters have this order, too.
// Returns whether the numbers describe a network.
bool read_network(ffi::Span<const int64_t> stages, ffi::Span<const double> slopes,
                  int64_t likelihood, int64_t widths, Network& network) {
  const size_t count = stages.size() / stage_numbers;
  if (stages.size() != count * stage_numbers || count > most_stages || count != slopes.size() ||
      count == 0 || likelihood < 0 || likelihood >= num_likelihoods)
    return false;
  network.num_stages = static_cast<int>(count);
  network.likelihood = static_cast<Likelihood>(likelihood);
  size_t at = 0;
  for (int s = 0; s < network.num_stages; ++s) {
    const int64_t* from = stages.begin() + stage_numbers * s;
    if (from[1] < 0 || from[1] >= num_activations) return false;
    Stage& stage = network.stages[s];
    stage.dense = from[0] != 0;
    stage.activation = static_cast<Activation>(from[1]);
    stage.inputs = static_cast<int>(from[2]);
    stage.outputs = static_cast<int>(from[3]);
    stage.slope = slopes.begin()[s];
    stage.weights = at;
    if (stage.dense) at += static_cast<size_t>(stage.inputs) * stage.outputs;
    stage.biases = at;
    if (stage.dense) at += stage.outputs;
    stage.slopes = at;
    if (has_slopes(stage.activation)) at += stage.outputs;
  }
  network.num_parameters = at;
  network.inputs = network.stages[0].inputs;
  network.outputs = network.stages[network.num_stages - 1].outputs;
  network.targets = num_targets(network.likelihood, network.outputs);
  network.widths = static_cast<int>(widths);
  return widths == 1 || (has_widths(network.likelihood) && widths == network.outputs);
}

template <class T>
std::optional<Data<T>> read_data(const Network& network, const In<T>& tile_inputs,
                                 const In<T>& tile_targets, const In<T>& inputs,
                                 const In<T>& targets) {
  const auto a = tile_inputs.dimensions(), b = tile_targets.dimensions();
  const auto c = inputs.dimensions(), d = targets.dimensions();
  const bool fit = a.size() == 3 && b.size() == 3 && c.size() == 2 && d.size() == 2 &&
                   a[0] == b[0] && a[2] == b[2] && a[2] % 16 == 0 && a[1] == network.inputs &&
                   c[0] == network.inputs && b[1] == network.targets && d[0] == network.targets &&
                   c[1] % 16 == 0 && d[1] <= c[1];
  if (!fit) return std::nullopt;
  return Data<T>{tile_inputs.typed_data(),
                 tile_targets.typed_data(),
                 static_cast<int>(a[0]),
                 static_cast<int>(a[2]),
                 {inputs.typed_data(), static_cast<size_t>(c[1]), targets.typed_data(),
                  static_cast<size_t>(d[1]), static_cast<int>(d[1])}};
}

Threads threads_of(ffi::ThreadPool& pool) {
  const int count = threads_for_call(static_cast<int>(pool.num_threads()));
  return {count, [&pool](std::function<void()> work) { pool.Schedule(std::move(work)); }};
}

// XLA functions must not throw; only allocation can fail.
template <class Work>
ffi::Error guarded(const Work& work) {
  try {
    work();
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      std::string("tensorbnn: ") + error.what());
  }
}

template <class T>
ffi::Error log_likelihood_of(ffi::ThreadPool pool, ffi::Span<const int64_t> stages,
                             ffi::Span<const double> slopes, int64_t likelihood, int64_t widths,
                             In<T> parameters, In<T> sd, In<T> tile_inputs, In<T> tile_targets,
                             In<T> inputs, In<T> targets, Out<T> value, Out<T> gradient,
                             Out<T> sd_gradient) {
  Network network;
  if (!read_network(stages, slopes, likelihood, widths, network))
    return ffi::Error::InvalidArgument("tensorbnn: not a network");
  const auto data = read_data<T>(network, tile_inputs, tile_targets, inputs, targets);
  const auto shape = parameters.dimensions();
  if (!data || shape.size() != 2 || shape[1] != static_cast<int64_t>(network.num_parameters) ||
      static_cast<int64_t>(sd.element_count()) != shape[0] * widths)
    return ffi::Error::InvalidArgument("tensorbnn: arrays do not fit the network");
  return guarded([&] {
    const Call call;
    log_likelihood<T>(current_kernel<T>(), network, *data, threads_of(pool),
                      {static_cast<int>(shape[0]), parameters.typed_data(), sd.typed_data(),
                       value->typed_data(), gradient->typed_data(), sd_gradient->typed_data()});
  });
}

// Nine whole numbers per entry, in the order of `Entry`, and three others. Returns whether they
// describe a prior of `dimension` numbers.
bool read_prior(ffi::Span<const int64_t> entries, ffi::Span<const double> others,
                int64_t num_hypers, ffi::Span<const int64_t> sd_from, double constant,
                int64_t dimension, Prior& prior) {
  const size_t count = entries.size() / entry_numbers;
  if (entries.size() != count * entry_numbers || count > most_entries ||
      others.size() != count * entry_other_numbers ||
      num_hypers > most_hypers || num_hypers > static_cast<int64_t>(count) ||
      sd_from.size() > most_widths)
    return false;
  prior.num_hypers = static_cast<int>(num_hypers);
  prior.num_entries = static_cast<int>(count);
  prior.num_widths = static_cast<int>(sd_from.size());
  for (int w = 0; w < prior.num_widths; ++w) {
    if (sd_from.begin()[w] >= num_hypers) return false;
    prior.sd_from[w] = static_cast<int>(sd_from.begin()[w]);
  }
  prior.constant = constant;
  for (size_t e = 0; e < count; ++e) {
    const int64_t* from = entries.begin() + entry_numbers * e;
    Entry& entry = prior.entries[e];
    entry.start = static_cast<size_t>(from[0]);
    entry.size = static_cast<size_t>(from[1]);
    entry.family = static_cast<Family>(from[2]);
    entry.location_kind = static_cast<LocationKind>(from[3]);
    entry.positive = from[4] != 0;
    entry.heavy = from[5] != 0;
    entry.truncated = from[6] != 0;
    entry.location_from = static_cast<int>(from[7]);
    entry.scale_from = static_cast<int>(from[8]);
    const double* other = others.begin() + entry_other_numbers * e;
    entry.df = other[0];
    entry.prior_location = other[1];
    entry.prior_scale = other[2];
    const bool inside = from[0] >= 0 && from[1] >= 0 && from[0] + from[1] <= dimension &&
                        from[2] >= 0 && from[2] < num_families;
    if (!inside || from[7] >= num_hypers || from[8] >= num_hypers) return false;
  }
  return true;
}

template <class T>
void copy(const In<T>& from, Out<T>& to) {
  std::copy(from.typed_data(), from.typed_data() + from.element_count(), to->typed_data());
}

template <class T>
ffi::Error leapfrog_of(ffi::ThreadPool pool, ffi::Span<const int64_t> stages,
                       ffi::Span<const double> slopes, int64_t likelihood, int64_t widths,
                       ffi::Span<const int64_t> entries, ffi::Span<const double> others,
                       int64_t num_hypers, ffi::Span<const int64_t> sd_from, double constant,
                       In<T> position, In<T> momentum, In<T> log_density, In<T> gradient,
                       In<T> step_size, ffi::Buffer<ffi::S32> steps, In<T> numbers, In<T> sd,
                       In<T> tile_inputs, In<T> tile_targets, In<T> inputs, In<T> targets,
                       Out<T> position_after, Out<T> momentum_after, Out<T> log_density_after,
                       Out<T> gradient_after) {
  const auto shape = position.dimensions(), sizes = step_size.dimensions();
  Network network;
  Prior prior;
  if (shape.size() != 2 || !read_network(stages, slopes, likelihood, widths, network) ||
      !read_prior(entries, others, num_hypers, sd_from, constant, shape[1], prior) ||
      prior.num_widths != network.widths)
    return ffi::Error::InvalidArgument("tensorbnn: not a model");
  const auto data = read_data<T>(network, tile_inputs, tile_targets, inputs, targets);
  const bool fit = data && sizes.size() == 2 && sizes[0] == shape[0] &&
                   (sizes[1] == 1 || sizes[1] == shape[1]) &&
                   static_cast<int64_t>(sd.element_count()) == shape[0] * widths &&
                   static_cast<int64_t>(steps.element_count()) == shape[0] &&
                   static_cast<int64_t>(numbers.element_count()) ==
                       shape[0] * 2 * prior.num_entries &&
                   shape[1] >= static_cast<int64_t>(network.num_parameters);
  if (!fit) return ffi::Error::InvalidArgument("tensorbnn: arrays do not fit the model");
  copy<T>(position, position_after);
  copy<T>(momentum, momentum_after);
  copy<T>(log_density, log_density_after);
  copy<T>(gradient, gradient_after);
  return guarded([&] {
    const Call call;
    follow<T>(current_kernel<T>(), network, *data, threads_of(pool), prior,
              {static_cast<int>(shape[0]), static_cast<size_t>(shape[1]), numbers.typed_data(),
               sd.typed_data(), step_size.typed_data(), static_cast<size_t>(sizes[1]),
               steps.typed_data(), position_after->typed_data(), momentum_after->typed_data(),
               log_density_after->typed_data(), gradient_after->typed_data()});
  });
}

template <class T>
auto leapfrog_binding() {
  using Array = In<T>;
  return ffi::Ffi::Bind()
      .template Ctx<ffi::ThreadPool>()
      .template Attr<ffi::Span<const int64_t>>("stages")
      .template Attr<ffi::Span<const double>>("slopes")
      .template Attr<int64_t>("likelihood")
      .template Attr<int64_t>("widths")
      .template Attr<ffi::Span<const int64_t>>("entries")
      .template Attr<ffi::Span<const double>>("others")
      .template Attr<int64_t>("num_hypers")
      .template Attr<ffi::Span<const int64_t>>("sd_from")
      .template Attr<double>("constant")
      .template Arg<Array>()
      .template Arg<Array>()
      .template Arg<Array>()
      .template Arg<Array>()
      .template Arg<Array>()
      .template Arg<ffi::Buffer<ffi::S32>>()
      .template Arg<Array>()
      .template Arg<Array>()
      .template Arg<Array>()
      .template Arg<Array>()
      .template Arg<Array>()
      .template Arg<Array>()
      .template Ret<Array>()
      .template Ret<Array>()
      .template Ret<Array>()
      .template Ret<Array>();
}

template <class T>
auto likelihood_binding() {
  return ffi::Ffi::Bind()
      .template Ctx<ffi::ThreadPool>()
      .template Attr<ffi::Span<const int64_t>>("stages")
      .template Attr<ffi::Span<const double>>("slopes")
      .template Attr<int64_t>("likelihood")
      .template Attr<int64_t>("widths")
      .template Arg<In<T>>()
      .template Arg<In<T>>()
      .template Arg<In<T>>()
      .template Arg<In<T>>()
      .template Arg<In<T>>()
      .template Arg<In<T>>()
      .template Ret<ffi::Buffer<data_type<T>>>()
      .template Ret<ffi::Buffer<data_type<T>>>()
      .template Ret<ffi::Buffer<data_type<T>>>();
}

}  // namespace
}  // namespace tensorbnn

XLA_FFI_DEFINE_HANDLER_SYMBOL(tensorbnn_log_likelihood_float32, tensorbnn::log_likelihood_of<float>,
                              tensorbnn::likelihood_binding<float>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(tensorbnn_log_likelihood_float64,
                              tensorbnn::log_likelihood_of<double>,
                              tensorbnn::likelihood_binding<double>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(tensorbnn_leapfrog_float32, tensorbnn::leapfrog_of<float>,
                              tensorbnn::leapfrog_binding<float>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(tensorbnn_leapfrog_float64, tensorbnn::leapfrog_of<double>,
                              tensorbnn::leapfrog_binding<double>());
