#include "consumer/processors/enlarge_kernels.hpp"

#define OFFRAMP_ENLARGE_KERNELS kAvx2Enlarge
#include "consumer/processors/enlarge_kernels.inl"
