#include "producer/ladder/private_place.hpp"

#include <utility>

#include "common/base/clock.hpp"
#include "common/base/trace.hpp"
#include "common/wire/slab_view.hpp"

namespace offramp {

PrivatePlace::PrivatePlace(std::size_t slab_bytes, std::uint64_t run_nonce, std::uint32_t epoch,
                           std::unique_ptr<Processor> processor, LocalDelivery& delivery)
    : slab_bytes_(slab_bytes),
      run_nonce_(run_nonce),
      epoch_(epoch),
      processor_(std::move(processor)),
      delivery_(delivery) {}

std::optional<WriteLoan> PrivatePlace::open() {
    if (stopped_) return std::nullopt;
    bytes_ = std::make_unique_for_overwrite<std::byte[]>(slab_bytes_);
    return WriteLoan::of_own_memory(0, ++generation_, {bytes_.get(), slab_bytes_});
}

void PrivatePlace::deliver(WriteLoan loan, const PublishedSlab& published) {
    {
        const TraceRange range(TraceName::ProcessOutput, published.first_batch);
        delivery_.begin(published);
        const SlabTicket ticket{.epoch = epoch_, .slab = loan.slab(), .generation = loan.generation(), .attempt = 1};
        processor_->process(
            SlabContents::read(loan.bytes(), run_nonce_, ticket), [] {}, [] { return true; });
    }
    bytes_.reset();
    delivery_.add(published, now_ns());
}

}  // namespace offramp
