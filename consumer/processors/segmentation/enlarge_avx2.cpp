#include "consumer/processors/segmentation/score_kernels.hpp"

#define OFFRAMP_ENLARGE_KERNELS kAvx2Enlarge
#include "consumer/processors/segmentation/enlarge_kernels.inl"
