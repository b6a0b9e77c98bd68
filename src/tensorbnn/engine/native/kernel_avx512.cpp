#define TENSORBNN_ISA avx512
#define TENSORBNN_VECTOR_BYTES 64
#include "kernel.hpp"

namespace tensorbnn {

const Kernel<float>* avx512_single() { return &avx512::kernel<float>; }
const Kernel<double>* avx512_double() { return &avx512::kernel<double>; }

}  // namespace tensorbnn
