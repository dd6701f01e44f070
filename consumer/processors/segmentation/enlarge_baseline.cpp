#include "consumer/processors/segmentation/score_kernels.hpp"

#define OFFRAMP_ENLARGE_KERNELS kBaselineEnlarge
#include "consumer/processors/segmentation/enlarge_kernels.inl"
