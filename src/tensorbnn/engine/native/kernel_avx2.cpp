#define TENSORBNN_ISA avx2
#define TENSORBNN_VECTOR_BYTES 32
#include "kernel.hpp"

namespace tensorbnn {

const Kernel<float>* avx2_single() { return &avx2::kernel<float>; }
const Kernel<double>* avx2_double() { return &avx2::kernel<double>; }

}  // namespace tensorbnn
