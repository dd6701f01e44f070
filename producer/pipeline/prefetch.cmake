# The half of the pipeline that brings input onto the device. Included by producer/pipeline/CMakeLists.txt.
offramp_library(offramp_prefetch
    SOURCES batch_plan.cpp device_timeline.cpp error_budget.cpp input_batch.cpp input_upload.cpp prefetcher.cpp skipped_items.cpp staging.cpp
    HEADERS batch_plan.hpp blocked_time.hpp bounded_queue.hpp device_timeline.hpp error_budget.hpp input_batch.hpp input_upload.hpp
            prefetcher.hpp skipped_items.hpp staging.hpp
    PUBLIC offramp_device offramp_sources offramp_slab_format)
