#include "consumer/processors/segmentation/score_kernels.hpp"

#define OFFRAMP_ARGMAX_KERNELS kBaselineArgmax
#include "consumer/processors/segmentation/argmax_kernels.inl"
