#include "producer/runner/ingest/prefetcher.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "common/app/images/image_decode.hpp"
#include "common/base/log.hpp"
#include "common/base/trace.hpp"

namespace offramp {
namespace {

// The least capacity of the queue of finished batches, which includes batches that need no upload. A model that takes
// microseconds per batch must not wait for a thread to wake up, and batches that are left out must not delay uploads.
// Device memory bounds the number of uploaded batches.
constexpr std::size_t kBatchesAhead = 128;

std::uint64_t tokens_of(std::span<const TokenRows> texts) {
    std::uint64_t tokens = 0;
    for (const TokenRows& text : texts) tokens += text.count;
    return tokens;
}

// Every text of resident input is of the greatest length.
std::vector<TokenRows> resident_texts(const ModelInput& input) {
    if (input.kind != InputKind::Feature || input.tensor.dtype != kInt32 || input.tensor.dims != 3) return {};
    const auto longest = static_cast<std::uint32_t>(input.tensor.shape[2]);
    return token_rows(std::vector(static_cast<std::size_t>(input.tensor.rows()), longest), longest);
}

// The largest batch of items that differ in shape, unless it is one item.
constexpr std::uint64_t kMostNumbersInBatch = std::uint64_t{32} << 20U;

std::uint64_t rows_at_once(std::span<const std::int64_t> shape, std::uint32_t batch) {
    std::uint64_t numbers = 1;
    for (const std::int64_t extent : shape) numbers *= static_cast<std::uint64_t>(extent);
    return std::clamp<std::uint64_t>(kMostNumbersInBatch / numbers, 1, batch);
}

TensorSpec smallest(const TensorSpec& varying, std::int64_t rows) {
    std::array<std::int64_t, kMaxDims> ones{};
    ones.fill(1);
    return in_shape(varying, rows, std::span(ones).first(varying.dims - 1));
}

bool needs_upload(BatchSource& source, const ModelInput& input) {
    return source.row_kind() != RowKind::Nothing && input.kind != InputKind::None;
}

}  // namespace

std::vector<std::uint64_t> starts_of_batches(const BatchSource& source, const TensorSpec& input, std::uint32_t batch) {
    std::vector<std::uint64_t> starts;
    if (!input.varies()) return starts;
    std::span<const std::int64_t> in_batch;  // empty: none of its items has a shape
    std::uint64_t most = 0;
    for (std::uint64_t item = 0; item < source.items(); ++item) {
        const std::span<const std::int64_t> shape = source.shape(item);
        const bool is_other = !shape.empty() && !in_batch.empty() && !std::ranges::equal(shape, in_batch);
        if (!shape.empty() && in_batch.empty()) most = rows_at_once(shape, batch);
        if (starts.empty() || is_other || item - starts.back() >= most) {
            starts.push_back(item);
            in_batch = {};
            most = batch;
        }
        if (shape.empty()) continue;
        in_batch = shape;
        most = rows_at_once(shape, batch);
    }
    return starts;
}

Prefetcher::Prefetcher(Device& device, BatchSource& source, PrefetchSettings settings, const Clock& clock)
    : device_(device),
      source_(source),
      settings_(std::move(settings)),
      plan_(source.items(), settings_.batch, settings_.done,
            starts_of_batches(source, settings_.input.tensor, settings_.batch)),
      budget_(settings_.max_errors, settings_.items > 0 ? settings_.items : source.items(), settings_.items_are,
              settings_.kind),
      found_(SkippedItems::kKept, settings_.skipped_before),
      skipped_(SkippedItems::kKept, settings_.skipped_before),
      queue_(std::max<std::size_t>(settings_.depth + 1, kBatchesAhead), clock) {
    const ModelInput& input = settings_.input;
    expect(settings_.batch > 0 && settings_.decode_workers > 0, "a prefetcher makes batches with at least one worker");
    expect(input.kind == InputKind::None || input.tensor.rows() == settings_.batch,
           "the model's input is one full batch");
    device_.use_on_this_thread();
    const bool uploads = needs_upload(source_, input);
    if (uploads) {
        const std::uint32_t buffers = settings_.depth + 1;
        const ModelInput largest = largest_input();
        upload_.emplace(device_, largest, source_.row_kind());
        if (input.group_rows > 0) packing_.emplace(device_, input);
        StagingWindow::Shape shape{upload_->staged_row_bytes(), settings_.batch, buffers, &plan_,
                                   stages_all_rows() ? StagingWindow::Rows::All : StagingWindow::Rows::Wanted};
        if (input.tensor.varies()) {
            shape.batch = static_cast<std::uint32_t>(largest.tensor.rows());
            shape.row_bytes_of = [this](std::uint64_t number) { return upload_->staged_row_bytes(input_of(number)); };
        }
        if (settings_.decode_on_gpu && source_.row_kind() == RowKind::Pixels) decoder_.emplace(device_);
        shape.for_gpu_decoder = decoder_.has_value();
        staging_.emplace(device_, shape, clock);
        inputs_ = std::make_shared<InputSlots>(device_, packing_ ? packing_->most_bytes() : upload_->input_bytes(),
                                               buffers, clock);
        // The model waits for the decoder's kernels, which are short.
        copies_ = device_.make_stream("h2d", decoder_ ? Device::Priority::First : Device::Priority::Normal);
        upload_began_ = device_.make_event(Device::Timing::On);
        uploaded_ = device_.make_event(Device::Timing::On);
    } else if (input.kind != InputKind::None) {
        resident_ = make_resident_input(device_, input, settings_.seed);
    }
    try {
        threads_.emplace_back([this] { upload(); });
        for (std::uint32_t worker = 0; uploads && worker < settings_.decode_workers; ++worker)
            threads_.emplace_back([this, worker] { decode(worker); });
    } catch (...) {
        stop();
        throw;
    }
}

Prefetcher::~Prefetcher() { stop(); }

std::optional<InputBatch> Prefetcher::next() {
    if (finished_) return std::nullopt;
    rethrow_failure();
    std::optional<InputBatch> batch = queue_.pop();
    if (finished_) return std::nullopt;
    rethrow_failure();
    if (!batch) return std::nullopt;
    ++next_turn_;
    batches_delivered_ += batch->left_out() ? 0 : 1;
    book(batch->rows());
    return batch;
}

std::optional<std::uint64_t> Prefetcher::upcoming() const {
    if (next_turn_ >= plan_.batches()) return std::nullopt;
    return plan_.number(next_turn_);
}

SkippedItem Prefetcher::skipped_item(std::uint64_t item, const std::string& reason) const {
    const std::string_view whole = source_.key_of_whole(item);
    return {.item = item,
            .origin = source_.origin(item),
            .reason = reason,
            .whole = std::string(whole == source_.key(item) ? std::string_view() : whole)};
}

bool Prefetcher::skip(std::uint64_t item, const std::string& reason) {
    SkippedItem skipped = skipped_item(item, reason);
    skipped.was_read = true;
    const std::uint64_t failed = found_.record(skipped);
    skipped_.record(skipped);
    return budget_.exceeded_by(failed) || budget_.all_failed(failed);
}

std::string Prefetcher::name_of(const InputBatch& batch) const {
    const std::uint64_t first = batch.rows().front().item;
    const std::uint64_t last = batch.rows().back().item;
    return "the batch of " + source_.origin(first) + (last == first ? "" : " to " + source_.origin(last));
}

void Prefetcher::refuse(InputBatch& batch, const std::string& reason) {
    bool too_many = false;
    for (const RowInfo& row : batch.rows()) {
        if (row.empty) continue;
        too_many = skip(row.item, reason) || too_many;
        ++items_skipped_;
    }
    batch.leave_out(reason);
    if (too_many) throw budget_.failure(found_.total(), found_.list());
}

void Prefetcher::end_for_skipped() { fail(std::make_exception_ptr(budget_.failure(found_.total(), found_.list()))); }

void Prefetcher::require_good() {
    if (!finished_) rethrow_failure();
}

void Prefetcher::book(std::span<const RowInfo> rows) {
    std::uint64_t wanted = 0;
    std::uint64_t skipped = 0;
    for (const RowInfo& row : rows) {
        if (row.done) continue;
        ++wanted;
        if (!row.empty) continue;
        ++skipped;
        skipped_.record(skipped_item(row.item, row.reason));
    }
    items_delivered_ += wanted;
    items_skipped_ += skipped;
}

std::vector<SkippedItem> Prefetcher::unreadable_upcoming() const {
    const std::vector<SkippedItem> given_out = skipped_.list();  // read before the others, which may grow meanwhile
    if (!found_.lists_all()) return {};
    const auto key_of = [](const SkippedItem& item) {  // identifies a part by its whole and their common reason
        return item.whole.empty() ? std::tuple(item.item, std::string(), std::string())
                                  : std::tuple(std::uint64_t{0}, item.whole, item.reason);
    };
    std::map<std::tuple<std::uint64_t, std::string, std::string>, std::uint64_t> given;
    for (const SkippedItem& item : given_out) given[key_of(item)] += item.stands_for();
    std::vector<SkippedItem> ahead;
    for (SkippedItem& item : found_.list()) {
        const auto known = given.find(key_of(item));
        const std::uint64_t before = known == given.end() ? 0 : known->second;
        if (item.stands_for() <= before) continue;
        if (before > 0) {  // parts are handed out in order: the last one is ahead
            item.item = item.last_item;
            item.origin = item.last_origin;
        }
        item.similar -= before;
        ahead.push_back(std::move(item));
    }
    return ahead;
}

void Prefetcher::finish_early() noexcept {
    finished_ = true;
    close();
}

void Prefetcher::stop() noexcept {
    finish_early();
    const std::lock_guard lock(threads_mutex_);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

Prefetcher::Progress Prefetcher::progress() const {
    return {.batches_delivered = batches_delivered_,
            .items_delivered = items_delivered_,
            .items_skipped = items_skipped_,
            .next_blocked_seconds = queue_.pop_blocked_seconds(),
            .h2d_seconds = static_cast<double>(h2d_ns_) / 1e9,
            .tokens = tokens_,
            .padded_tokens = padded_tokens_,
            .decoded_on_gpu = decoded_on_gpu_};
}

void Prefetcher::decode(std::uint32_t worker) noexcept {
    name_this_thread(("decode-" + std::to_string(worker)).c_str());
    try {
        while (const auto claim = staging_->claim())
            plan_.is_done(claim->item) ? load_done_row(*claim) : load_row(*claim);
    } catch (...) {
        fail(std::current_exception());
    }
}

void Prefetcher::load_row(const StagingWindow::Claim& claim) {
    const TraceRange range(TraceName::Decode, plan_.number_of(claim.item));
    RowInfo row{.item = claim.item, .key = source_.key(claim.item)};
    try {
        load(claim);
    } catch (const UnreadableItem& unreadable) {
        make_empty(row, claim.row, unreadable.what());
    }
    staging_->done(std::move(row));
}

void Prefetcher::load(const StagingWindow::Claim& claim) {
    if (claim.encoded != nullptr)
        source_.load_for_gpu(claim.item, claim.row, *claim.encoded);
    else
        source_.load(claim.item, claim.row);
}

void Prefetcher::make_empty(RowInfo& row, std::span<std::byte> bytes, const std::string& reason) {
    std::ranges::fill(bytes, std::byte{0});
    row.empty = true;
    row.reason = reason;
    const std::uint64_t failed = found_.record(skipped_item(row.item, reason));
    if (budget_.exceeded_by(failed)) throw budget_.failure(failed, found_.list());
}

// Loads a completed row for the others' grouping. An unreadable one has no tokens, as in its own run.
void Prefetcher::load_done_row(const StagingWindow::Claim& claim) {
    try {
        load(claim);
    } catch (const UnreadableItem&) {
        std::ranges::fill(claim.row, std::byte{0});
    }
    staging_->done({.item = claim.item, .key = {}, .empty = true, .done = true, .reason = {}});
}

void Prefetcher::upload() noexcept {
    name_this_thread("upload");
    try {
        device_.use_on_this_thread();
        staging_ ? upload_batches() : queue_resident_batches();
        queue_.close();
    } catch (...) {
        fail(std::current_exception());
    }
    try {
        if (copies_) copies_->synchronize();  // the staging buffers are destroyed next
    } catch (const std::exception& error) {
        spdlog::error("ending the upload stream: {}", error.what());
    }
}

void Prefetcher::upload_batches() {
    for (std::uint64_t turn = 0;; ++turn) {
        const TraceRange staging(TraceName::StageBatch, turn < plan_.batches() ? plan_.number(turn) : 0);
        std::optional<StagingWindow::Batch> batch = staging_->take_complete();
        if (!batch) return;
        if (budget_.all_failed(found_.total())) throw budget_.failure(found_.total(), found_.list());
        if (leave_out(*batch)) continue;
        const TensorSpec tensor = input_of(batch->number);
        const std::size_t row_bytes = upload_->staged_row_bytes(tensor);
        for (std::size_t row = 0; row < batch->rows.size(); ++row)
            if (batch->rows[row].done && !stages_all_rows())
                std::ranges::fill(batch->memory.subspan(row * row_bytes, row_bytes), std::byte{0});
        // The rows that a short last batch lacks: a model of a fixed shape also computes on them.
        if (!settings_.input.tensor.varies())
            std::ranges::fill(batch->memory.subspan(batch->rows.size() * row_bytes), std::byte{0});
        upload_one(std::move(*batch), tensor);
    }
}

// The input of a batch: a full one, or as many rows as the batch has if the model's input varies.
TensorSpec Prefetcher::input_of(std::uint64_t number) const {
    if (!settings_.input.tensor.varies()) return settings_.input.tensor;
    const std::uint64_t first = plan_.first_item(number);
    const std::uint32_t rows = plan_.rows(number);
    for (std::uint64_t item = first; item < first + rows; ++item)
        if (const auto shape = source_.shape(item); !shape.empty())
            return in_shape(settings_.input.tensor, rows, shape);
    return smallest(settings_.input.tensor, rows);  // none of its items is readable
}

// The model's input for the largest batch: buffers hold any.
ModelInput Prefetcher::largest_input() const {
    ModelInput input = settings_.input;
    if (!input.tensor.varies()) return input;
    input.tensor = {};
    for (std::uint64_t turn = 0; turn < plan_.batches(); ++turn)
        if (TensorSpec each = input_of(plan_.number(turn)); each.elements() > input.tensor.elements())
            input.tensor = std::move(each);
    if (input.tensor.dims == 0) input.tensor = smallest(settings_.input.tensor, 1);
    return input;
}

// A batch without readable rows needs no computation.
bool Prefetcher::leave_out(StagingWindow::Batch& batch) {
    if (!std::ranges::all_of(batch.rows, &RowInfo::empty)) return false;
    queue_.push(InputBatch::left_out(batch.number, std::move(batch.rows)));
    staging_->recycle();
    return true;
}

void Prefetcher::upload_one(StagingWindow::Batch batch, const TensorSpec& tensor) {
    const std::uint64_t number = batch.number;
    InputSlot* const slot = inputs_->acquire();
    if (slot == nullptr) return;
    Event* const last_use = std::exchange(slot->last_use, nullptr);
    std::optional<LengthGroups> groups;
    if (packing_) groups = packing_->pack(batch.memory, batch.rows.size());
    std::vector<TokenRows> texts;
    if (source_.row_kind() == RowKind::Tokens && !groups)
        texts = texts_of_batch(batch.memory, upload_->staged_row_bytes());
    count_tokens(groups ? &*groups : nullptr, texts);
    {
        const TraceRange h2d(TraceName::H2d, batch.number);
        // An earlier upload on this stream recorded it: it is done, or nearly. An event may be armed again once it was
        // seen done.
        if (slot->ready->armed()) slot->ready->wait();
        if (last_use != nullptr) copies_->wait_for(*last_use);
        copies_->record(*upload_began_);
        if (decoder_) decode_on_gpu(batch, tensor);
        if (groups)
            InputUpload::submit_as_it_is(*copies_, {packing_->packed(), groups->bytes}, slot->memory->data(),
                                         *uploaded_);
        else
            upload_->submit(*copies_, batch.memory.data(), slot->memory->data(), *uploaded_, tensor, batch.encoded);
        copies_->record(*slot->ready);
    }
    // Handed out before the upload is done: the model's work can be submitted meanwhile.
    const bool varies = settings_.input.tensor.varies();
    queue_.push(varies   ? InputBatch(batch.number, std::move(batch.rows), inputs_, *slot, tensor)
                : groups ? InputBatch(batch.number, std::move(batch.rows), inputs_, *slot, std::move(*groups))
                         : InputBatch(batch.number, std::move(batch.rows), inputs_, *slot, std::move(texts)));
    uploaded_->wait();
    h2d_ns_ += static_cast<std::uint64_t>(uploaded_->seconds_since(*upload_began_) * 1e9);
    if (settings_.timeline != nullptr) settings_.timeline->add("h2d", number, *upload_began_, *uploaded_);
    // done, because the upload came after it; may be armed again from here on
    if (last_use != nullptr) last_use->wait();
    staging_->recycle();
}

// Pictures that the GPU's decoder refuses are decoded here.
void Prefetcher::decode_on_gpu(StagingWindow::Batch& batch, const TensorSpec& tensor) {
    const std::size_t row_bytes = upload_->staged_row_bytes(tensor);
    for (const std::size_t row : decoder_->submit(*copies_, batch.encoded, upload_->pixels(), row_bytes))
        load_on_cpu(batch, row, batch.memory.subspan(row * row_bytes, row_bytes));
    decoded_on_gpu_ += static_cast<std::uint64_t>(
        std::ranges::count_if(batch.encoded, [](const EncodedPicture& each) { return !each.file.empty(); }));
}

void Prefetcher::load_on_cpu(StagingWindow::Batch& batch, std::size_t row, std::span<std::byte> pixels) {
    EncodedPicture& encoded = batch.encoded[row];
    try {
        ImageDecoder().decode(encoded.file, encoded.frame, pixels);
    } catch (const UnreadableItem& unreadable) {
        make_empty(batch.rows[row], pixels, unreadable.what());
    }
    encoded.file.clear();
}

void Prefetcher::count_tokens(const LengthGroups* groups, std::span<const TokenRows> texts) {
    // Padding first: a reader of tokens and then padding never sees more tokens than computed ones.
    padded_tokens_ += groups != nullptr ? groups->padded_tokens
                                        : texts.size() * (upload_->staged_row_bytes() / (2 * sizeof(std::int32_t)));
    tokens_ += groups != nullptr ? groups->tokens : tokens_of(texts);
}

void Prefetcher::queue_resident_batches() {
    const std::vector<TokenRows> texts = resident_texts(settings_.input);
    for (std::uint64_t turn = 0; turn < plan_.batches(); ++turn) {
        const std::uint64_t number = plan_.number(turn);
        const TraceRange staging(TraceName::StageBatch, number);
        std::vector<RowInfo> rows(plan_.rows(number));
        std::uint64_t item = number * settings_.batch;
        for (RowInfo& row : rows) {
            row.item = item;
            row.done = row.empty = plan_.is_done(item);
            row.key = source_.key(item++);
        }
        if (!queue_.push(InputBatch(number, std::move(rows), resident_ ? resident_->data() : nullptr, texts))) return;
    }
}

void Prefetcher::fail(std::exception_ptr error) noexcept {
    {
        const std::lock_guard lock(failure_mutex_);
        if (!failure_) failure_ = std::move(error);
    }
    close();
}

void Prefetcher::close() noexcept {
    if (staging_) staging_->close();
    if (inputs_) inputs_->close();
    queue_.abandon();
}

void Prefetcher::rethrow_failure() {
    const std::lock_guard lock(failure_mutex_);
    if (failure_) std::rethrow_exception(failure_);
}

}  // namespace offramp
