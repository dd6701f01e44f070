#include "consumer/processors/segmentation/score_kernels.hpp"

#define OFFRAMP_ARGMAX_KERNELS kAvx2Argmax
#define OFFRAMP_ENLARGE_KERNELS kAvx2Enlarge
#include "consumer/processors/segmentation/score_kernels.inl"
