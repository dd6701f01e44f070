#include "consumer/processors/segmentation/score_kernels.hpp"

#define OFFRAMP_ARGMAX_KERNELS kAvx2Argmax
#include "consumer/processors/segmentation/argmax_kernels.inl"
