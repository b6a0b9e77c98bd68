#define TENSORBNN_ISA portable
#define TENSORBNN_VECTOR_BYTES 16
#include "kernel.hpp"

namespace tensorbnn {

const Kernel<float>* portable_single() { return &portable::kernel<float>; }
const Kernel<double>* portable_double() { return &portable::kernel<double>; }

}  // namespace tensorbnn
