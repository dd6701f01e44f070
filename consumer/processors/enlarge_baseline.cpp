#include "consumer/processors/enlarge_kernels.hpp"

#define OFFRAMP_ENLARGE_KERNELS kBaselineEnlarge
#include "consumer/processors/enlarge_kernels.inl"
