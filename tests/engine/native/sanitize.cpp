// Run the kernels of this machine over many shapes; compiled with sanitizers by `make sanitize`.
//
// What they compute is tested from Python. Here every array has exactly the size that the library
// gives it, so that a read or write outside of one is found.
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "dispatch.hpp"
#include "batch.hpp"

using namespace tensorbnn;

namespace {

std::mt19937 generator(1);

int number(int least, int most) {
  return std::uniform_int_distribution<int>(least, most)(generator);
}

// Arrays of exactly this size on the heap, so that AddressSanitizer sees their ends.
template <class T>
std::unique_ptr<T[]> random_array(size_t count, double scale = 1) {
  std::unique_ptr<T[]> values(new T[count]);
  std::normal_distribution<double> normal(0, scale);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<T>(normal(generator));
  return values;
}

Network random_network() {
  Network network;
  network.num_stages = number(1, 4);
  network.likelihood = static_cast<Likelihood>(number(0, num_likelihoods - 1));
  int units = network.inputs = number(1, 20);
  size_t at = 0;
  for (int s = 0; s < network.num_stages; ++s) {
    Stage& stage = network.stages[s];
    stage.activation = static_cast<Activation>(number(0, num_activations - 1));
    stage.dense = stage.activation < Activation::Sloped;
    stage.inputs = units;
    stage.outputs = units = stage.dense ? number(1, 40) : units;
    stage.slope = 0.3;
    stage.weights = at;
    stage.biases = at += stage.dense ? static_cast<size_t>(stage.inputs) * stage.outputs : 0;
    stage.slopes = at += stage.dense ? stage.outputs : 0;
    at += has_slopes(stage.activation) ? units : 0;
  }
  network.outputs = units;
  network.targets = num_targets(network.likelihood, units);
  network.widths = has_widths(network.likelihood) && number(0, 1) ? units : 1;
  network.num_parameters = at;
  return network;
}

// One entry for all parameters, its location and scale two hyper-parameters.
Prior random_prior(const Network& network) {
  Prior prior;
  prior.num_hypers = number(0, 1) * 2;
  prior.num_entries = prior.num_hypers + 1;
  prior.num_widths = network.widths;
  for (int w = 0; w < prior.num_widths; ++w)
    prior.sd_from[w] = prior.num_hypers && number(0, 3) ? 1 : -1;
  prior.constant = 0;
  for (int e = 0; e < prior.num_entries; ++e) {
    const bool hyper = e < prior.num_hypers;
    Entry& entry = prior.entries[e];
    entry.start = hyper ? network.num_parameters + e : 0;
    entry.size = hyper ? 1 : network.num_parameters;
    entry.family = static_cast<Family>(number(0, num_families - 1));
    entry.location_kind = LocationKind::Value;
    entry.positive = entry.family > Family::StudentT || (hyper && e == 1);
    entry.heavy = !entry.positive &&
                  (entry.family == Family::Cauchy || entry.family == Family::StudentT);
    entry.truncated = entry.positive && entry.family <= Family::StudentT;
    entry.location_from = hyper || !prior.num_hypers ? -1 : 0;
    entry.scale_from = hyper || !prior.num_hypers ? -1 : 1;
    entry.df = 3;
    entry.prior_location = entry.prior_scale = 1;
  }
  return prior;
}

template <class T>
void run_once(const Threads& threads) {
  const Network network = random_network();
  const int tiles = number(0, 1) * number(1, 12), tile_rows = tiles ? 16 * number(1, 5) : 0;
  const int rows = number(tiles ? 0 : 1, 150), padded = (rows + 15) / 16 * 16;
  const auto tile_inputs = random_array<T>(static_cast<size_t>(tiles) * tile_rows * network.inputs);
  const auto tile_targets =
      random_array<T>(static_cast<size_t>(tiles) * tile_rows * network.targets);
  const auto inputs = random_array<T>(static_cast<size_t>(padded) * network.inputs);
  const auto targets = random_array<T>(static_cast<size_t>(rows) * network.targets);
  const Data<T> data{tile_inputs.get(), tile_targets.get(), tiles, tile_rows,
                     {inputs.get(), static_cast<size_t>(padded), targets.get(),
                      static_cast<size_t>(rows), rows}};
  // One chain alone has its rows shared by threads, where there are enough of them.
  const int chains = number(0, 2) ? number(1, 20) : 1;
  // Now and then numbers that overflow.
  const double scale = number(0, 4) ? 0.3 : 1e20;
  const auto parameters = random_array<T>(chains * network.num_parameters, scale);
  const auto sd = random_array<T>(chains * network.widths), value = random_array<T>(chains);
  const auto gradient = random_array<T>(chains * network.num_parameters);
  const auto sd_gradient = random_array<T>(chains * network.widths);
  log_likelihood<T>(current_kernel<T>(), network, data, threads,
                    {chains, parameters.get(), sd.get(), value.get(), gradient.get(),
                     sd_gradient.get()});

  const Prior prior = random_prior(network);
  const size_t dimension = network.num_parameters + prior.num_hypers;
  const auto numbers = random_array<T>(static_cast<size_t>(chains) * 2 * prior.num_entries);
  const size_t sizes = number(0, 1) ? dimension : 1;
  const auto step_size = random_array<T>(chains * sizes, 0.01);
  const auto position = random_array<T>(chains * dimension, scale);
  const auto momentum = random_array<T>(chains * dimension);
  const auto slope = random_array<T>(chains * dimension);
  std::unique_ptr<int32_t[]> steps(new int32_t[chains]);
  for (int chain = 0; chain < chains; ++chain) steps[chain] = number(0, 4);
  follow<T>(current_kernel<T>(), network, data, threads, prior,
            {chains, dimension, numbers.get(), sd.get(), step_size.get(), sizes, steps.get(),
             position.get(), momentum.get(), value.get(), slope.get()});
}

}  // namespace

int main() {
  const Threads alone{1, {}};
  const Threads two{2, [](std::function<void()> work) { std::thread(std::move(work)).detach(); }};
  // As a pool does whose queue is full.
  const Threads at_once{2, [](std::function<void()> work) { work(); }};
  const Threads* const all[] = {&alone, &two, &at_once};
  for (const char* name : {"avx512", "avx2", "portable"}) {
    if (!tensorbnn_use_instruction_set(name)) continue;
    for (int i = 0; i < 150; ++i) {
      run_once<float>(*all[i % 3]);
      run_once<double>(*all[i % 3]);
    }
    std::printf("%s: clean\n", name);
  }
}
