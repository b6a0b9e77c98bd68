#include "dispatch.hpp"

#include <atomic>
#include <cstring>
#include <string>

#include "threads.hpp"

namespace tensorbnn {
namespace {

struct InstructionSet {
  const char* name;
  bool (*present)();
  const Kernel<float>* (*single)();
  const Kernel<double>* (*wide)();
};

// Best first. The operating system may not save the registers of an instruction set that the
// processor has; the compiler's test checks both.
const InstructionSet known[] = {
#if defined(TENSORBNN_HAS_AVX512)
    {"avx512",
     [] {
       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("fma");
     },
     avx512_single, avx512_double},
#endif
#if defined(TENSORBNN_HAS_AVX2)
    {"avx2", [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); },
     avx2_single, avx2_double},
#endif
    {"portable", [] { return true; }, portable_single, portable_double},
};

std::atomic<const InstructionSet*>& current() {
  static std::atomic<const InstructionSet*> chosen{[] {
    const InstructionSet* best = known;
    while (!best->present()) ++best;
    return best;
  }()};
  return chosen;
}

}  // namespace

template <>
const Kernel<float>& current_kernel() {
  return *current().load()->single();
}

template <>
const Kernel<double>& current_kernel() {
  return *current().load()->wide();
}

std::atomic<int>& wanted_threads() {
  static std::atomic<int> count{0};
  return count;
}

std::atomic<int>& Call::running() {
  static std::atomic<int> calls{0};
  return calls;
}

int threads_for_call(int available) {
  const int wanted = wanted_threads().load();
  if (wanted > 0) return wanted;
  const int calls = Call::running().load();
  const int share = available / (calls > 1 ? calls : 1);
  return share > 1 ? share : 1;
}

}  // namespace tensorbnn

using tensorbnn::current;
using tensorbnn::known;

const char* tensorbnn_numbers() {
  using namespace tensorbnn;
  static const std::string numbers = [] {
    std::string all;
    const auto add = [&](const char* name, int64_t number) {
      all += std::string(name) + " " + std::to_string(number) + "\n";
    };
#define TENSORBNN_ADD(kind, name) add(#kind "." #name, static_cast<int64_t>(kind::name));
    TENSORBNN_ACTIVATIONS(TENSORBNN_ADD)
    TENSORBNN_LIKELIHOODS(TENSORBNN_ADD)
    TENSORBNN_FAMILIES(TENSORBNN_ADD)
    TENSORBNN_LOCATION_KINDS(TENSORBNN_ADD)
#undef TENSORBNN_ADD
    add("most_stages", most_stages);
    add("most_hypers", most_hypers);
    add("most_entries", most_entries);
    add("most_widths", most_widths);
    add("most_rows_of_chains", most_rows_of_chains);
    add("stage_numbers", stage_numbers);
    add("entry_numbers", entry_numbers);
    add("entry_other_numbers", entry_other_numbers);
    return all;
  }();
  return numbers.c_str();
}

const char* tensorbnn_instruction_sets() {
  static const std::string names = [] {
    std::string all;
    for (const auto& each : known)
      if (each.present()) all += (all.empty() ? "" : " ") + std::string(each.name);
    return all;
  }();
  return names.c_str();
}

const char* tensorbnn_instruction_set() { return current().load()->name; }

int tensorbnn_use_instruction_set(const char* name) {
  for (const auto& each : known)
    if (!std::strcmp(each.name, name) && each.present()) {
      current() = &each;
      return 1;
    }
  return 0;
}

void tensorbnn_use_threads(int count) { tensorbnn::wanted_threads() = count; }
