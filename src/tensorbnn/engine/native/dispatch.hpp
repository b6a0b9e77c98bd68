// The instruction set, chosen at run time.
#pragma once

#include "network.hpp"

namespace tensorbnn {

// The kernel of the instruction set in use, for float and double.
template <class T>
const Kernel<T>& current_kernel();

}  // namespace tensorbnn

extern "C" {
// The numbers shared with Python, one "name number" per line: see numbers.hpp.
const char* tensorbnn_numbers();
// Names of the instruction sets that this machine has, best first, separated by spaces.
const char* tensorbnn_instruction_sets();
// The one in use.
const char* tensorbnn_instruction_set();
// Use another; returns 0 if this machine does not have it.
int tensorbnn_use_instruction_set(const char* name);
// Let this many threads work on one call; 0 means a fair share of the cores.
void tensorbnn_use_threads(int count);
}
