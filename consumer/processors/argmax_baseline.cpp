#include "consumer/processors/argmax_kernels.hpp"

#define OFFRAMP_ARGMAX_KERNELS kBaselineArgmax
#include "consumer/processors/argmax_kernels.inl"
