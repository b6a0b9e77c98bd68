// All that is compiled for one instruction set.
#pragma once

#include "evaluate.hpp"
#include "leapfrog.hpp"

namespace tensorbnn {
namespace TENSORBNN_ISA {
namespace {

template <class T>
constexpr Kernel<T> kernel = {lanes<T>, evaluate<T, false>, evaluate<T, true>, follow_one<T>,
                              follow_chains<T>};

}  // namespace
}  // namespace TENSORBNN_ISA
}  // namespace tensorbnn
