#include "consumer/processors/segmentation/score_kernels.hpp"

#define OFFRAMP_ARGMAX_KERNELS kBaselineArgmax
#define OFFRAMP_ENLARGE_KERNELS kBaselineEnlarge
#include "consumer/processors/segmentation/score_kernels.inl"
