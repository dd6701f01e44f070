#include "common/dead_letters/payload_file.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <span>

#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/base/remedy.hpp"
#include "common/base/scarcity.hpp"
#include "common/json/json_text.hpp"
#include "common/wire/tensor_spec.hpp"

namespace offramp {
namespace {

// The alignment of any element type, and of memory from operator new.
constexpr std::size_t kLeastAlignment = 16;

constexpr std::uint64_t kMostBytes = 1ULL << 62;  // of a tensor, so that no sum overflows

using nlohmann::json;

// The dimensions, from the slowest to the fastest.
std::vector<std::size_t> order_in_memory(const TensorSpec& spec) {
    std::vector<std::size_t> order(spec.dims);
    std::iota(order.begin(), order.end(), std::size_t{0});
    // Dimension 0 counts the samples and stays first, independent of the order within a sample.
    std::stable_sort(order.begin() + 1, order.end(),
                     [&](std::size_t a, std::size_t b) { return spec.strides[a] > spec.strides[b]; });
    return order;
}

json tensor_metadata(const TensorView& tensor, const std::string& stored_as) {
    const TensorSpec& spec = tensor.spec;
    const auto dims = static_cast<std::ptrdiff_t>(spec.dims);
    json metadata{{"name", spec.name},
                  {"stored_as", stored_as},
                  {"dtype", {spec.dtype.code, spec.dtype.bits}},
                  {"shape", std::vector(spec.shape.begin(), spec.shape.begin() + dims)},
                  {"strides", std::vector(spec.strides.begin(), spec.strides.begin() + (spec.varies() ? 0 : dims))}};
    if (spec.varies()) metadata["extents"] = tensor.extents;
    return metadata;
}

void require(bool holds, const char* field) {
    if (!holds) throw ProtocolError(std::string("the metadata of a dead letter's payload: '") + field + "' is invalid");
}

TensorSpec read_spec(const json& metadata) {
    TensorSpec spec;
    spec.name = metadata.at("name").get<std::string>();
    const auto dtype = metadata.at("dtype").get<std::vector<std::uint8_t>>();
    const auto shape = metadata.at("shape").get<std::vector<std::int64_t>>();
    const auto strides = metadata.at("strides").get<std::vector<std::int64_t>>();
    require(dtype.size() == 2, "dtype");
    spec.dtype = {dtype[0], dtype[1], 1};
    require(spec.dtype.whole_bytes(), "dtype");
    require(!shape.empty() && shape.size() <= kMaxDims, "shape");
    spec.dims = shape.size();
    const bool varies = std::find(shape.begin() + 1, shape.end(), kVarying) != shape.end();
    require(strides.size() == (varies ? 0 : shape.size()), "strides");
    // Check that no product of the shape overflows below.
    std::uint64_t bytes = spec.dtype.bytes();
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (d > 0 && shape[d] == kVarying) continue;
        require(shape[d] >= 1 && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(shape[d]), &bytes) &&
                    bytes < kMostBytes,
                "shape");
    }
    std::copy(shape.begin(), shape.end(), spec.shape.begin());
    std::copy(strides.begin(), strides.end(), spec.strides.begin());
    require(varies || spec.dense_rows(), "strides");
    return spec;
}

// The samples' sizes follow from the extents; PayloadFile finds their bytes.
void read_extents(const json& metadata, TensorView& tensor) {
    tensor.extents = metadata.at("extents").get<std::vector<std::int64_t>>();
    const auto rows = static_cast<std::size_t>(tensor.spec.rows());
    require(tensor.extents.size() == rows * tensor.spec.varying_dims(), "extents");
    std::uint64_t all = 0;
    for (std::size_t row = 0; row < rows; ++row) {
        const auto own = tensor.extents_of(row);
        require(std::ranges::all_of(own, [](std::int64_t extent) { return extent >= 0; }), "extents");
        const auto bytes = tensor.spec.sample_bytes(own, kMostBytes - all);
        require(bytes.has_value(), "extents");
        all += *bytes;
    }
}

// Its extents were checked.
std::size_t bytes_of_sample(const TensorView& tensor, std::size_t row) {
    return tensor.spec.sample_bytes(tensor.extents_of(row), kMostBytes).value_or(0);
}

// Samples of a tensor that varies, one after another in `bytes`.
void cut_into_samples(TensorView& tensor) {
    for (std::size_t row = 0, begin = 0; row < static_cast<std::size_t>(tensor.spec.rows()); ++row) {
        const std::size_t size = bytes_of_sample(tensor, row);
        tensor.samples.push_back(tensor.bytes.subspan(begin, size));
        begin += size;
    }
    tensor.bytes = {};
}

std::size_t bytes_of(const TensorView& tensor) {
    if (!tensor.spec.varies()) return tensor.spec.row_bytes() * static_cast<std::size_t>(tensor.spec.rows());
    std::size_t bytes = 0;
    for (std::size_t row = 0; row < static_cast<std::size_t>(tensor.spec.rows()); ++row)
        bytes += bytes_of_sample(tensor, row);
    return bytes;
}

// The shape of all samples, one after another.
std::vector<std::int64_t> packed_shape(const TensorView& tensor) {
    const TensorSpec& spec = tensor.spec;
    const auto elements = static_cast<std::int64_t>(bytes_of(tensor) / spec.dtype.bytes());
    if (spec.shape[1] != kVarying || spec.varying_dims() > 1) return {elements};
    std::vector<std::int64_t> shape(spec.shape.begin() + 1,
                                    spec.shape.begin() + static_cast<std::ptrdiff_t>(spec.dims));
    shape[0] = std::accumulate(tensor.extents.begin(), tensor.extents.end(), std::int64_t{0});
    return shape;
}

void read_rows(const json& metadata, SlabContents& slab) {
    for (const json& sample : metadata.at("samples")) {
        SampleView view;
        view.item = sample.at(0).get<std::uint64_t>();
        view.key = sample.at(1).get<std::string>();
        view.empty = sample.at(2).get<bool>();
        if (sample.size() > 3) {
            view.metadata = sample.at(3).get<std::string>();
            require(parse_json_or_discard(view.metadata).is_object(), "samples");
        }
        view.row = static_cast<std::uint32_t>(slab.samples.size());
        require(slab.samples.size() < kMaxSamplesPerSlab && view.key.size() <= kMaxKeyBytes &&
                    view.metadata.size() <= kMaxMetadataBytes,
                "samples");
        slab.samples.push_back(std::move(view));
    }
    std::size_t next = 0;
    for (const json& batch : metadata.at("batches")) {
        const BatchRecord piece{.batch = batch.at(0).get<std::uint64_t>(),
                                .first_row = batch.at(1).get<std::uint32_t>(),
                                .rows = batch.at(2).get<std::uint32_t>(),
                                .first_sample = static_cast<std::uint32_t>(next),
                                .reserved = 0};
        require(piece.rows <= slab.samples.size() - next, "batches");
        for (std::uint32_t row = 0; row < piece.rows; ++row) slab.samples[next + row].batch = piece.batch;
        next += piece.rows;
        slab.batches.push_back(piece);
    }
    require(next == slab.samples.size(), "batches");
}

}  // namespace

void write_payload(const std::string& path, const SlabContents& slab) {
    const std::string front = safetensors_header(tensor_entries(slab), {{kPayloadMetadata, payload_metadata(slab)}});
    std::vector<std::span<const std::byte>> pieces{std::as_bytes(std::span(front))};
    for (const TensorView& tensor : slab.tensors) {
        if (!tensor.spec.varies()) pieces.push_back(tensor.bytes);
        pieces.insert(pieces.end(), tensor.samples.begin(), tensor.samples.end());
    }
    write_dead_letter_file(path, pieces);
}

PayloadFile::PayloadFile(const std::string& path)
    : file_(path, {.what = "the dead letter's payload",
                   .hint = "Was it copied completely? Only the run that set it aside can write it again"}) {
    const auto metadata = file_.metadata().find(kPayloadMetadata);
    if (metadata == file_.metadata().end())
        throw ProtocolError(
            "'" + path + "' is not the payload of a dead letter: its metadata has no '" + kPayloadMetadata + "'",
            "Give a file from a run's folder dead-letters/");
    NotedSlab noted = read_payload_metadata(metadata->second);
    slab_ = std::move(noted.slab);
    for (std::size_t i = 0; i < slab_.tensors.size(); ++i) {
        TensorView& tensor = slab_.tensors[i];
        const StoredTensor* const stored = file_.find(noted.stored_as[i]);
        const std::size_t wanted = bytes_of(tensor);
        if (stored == nullptr || stored->bytes.size() != wanted)
            throw ProtocolError("'" + path + "': tensor '" + noted.stored_as[i] + "' has " +
                                std::to_string(stored == nullptr ? 0 : stored->bytes.size()) + " bytes, expected " +
                                std::to_string(wanted));
        tensor.bytes = stored->bytes;
        if (reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % kLeastAlignment != 0) {
            aligned_.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
            tensor.bytes = aligned_.back();
        }
        if (tensor.spec.varies()) cut_into_samples(tensor);
    }
}

void write_dead_letter_file(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
    std::size_t total = 0;
    for (const auto& piece : pieces) total += piece.size();
    WholeFile file(path, 0600, [&](int problem) {
        return SystemError("writing " + path + ", " + std::to_string(total) + " bytes", problem,
                           way_to_write(problem, "Make room there") + ", or " + remedy(Remedy::AnotherRunDirectory),
                           ErrorKind::CannotWrite);
    });
    for (const auto& piece : pieces) file.write(piece);
    file.flush();
    file.put_in_place();
    file.flush_name();
}

void write_dead_letter_file(const std::string& path, std::string_view text) {
    const std::array pieces{std::as_bytes(std::span(text))};
    write_dead_letter_file(path, pieces);
}

std::vector<TensorEntry> tensor_entries(const SlabContents& slab) {
    std::vector<TensorEntry> entries;
    std::set<std::string> taken;
    for (const TensorView& tensor : slab.tensors) {
        TensorEntry entry{.name = tensor.spec.name,
                          .dtype = safetensors_dtype(tensor.spec.dtype),
                          .shape = {},
                          .bytes = bytes_of(tensor)};
        if (entry.name.empty() || entry.name == "__metadata__" || taken.contains(entry.name))
            entry.name += "#" + std::to_string(entries.size());
        if (tensor.spec.varies())
            entry.shape = packed_shape(tensor);
        else
            for (const std::size_t d : order_in_memory(tensor.spec)) entry.shape.push_back(tensor.spec.shape[d]);
        if (entry.dtype.empty()) {
            entry.dtype = "U8";
            entry.shape.push_back(static_cast<std::int64_t>(tensor.spec.dtype.bytes()));
        }
        taken.insert(entry.name);
        entries.push_back(std::move(entry));
    }
    return entries;
}

std::string payload_metadata(const SlabContents& slab) {
    json tensors = json::array();
    const std::vector<TensorEntry> entries = tensor_entries(slab);
    for (std::size_t i = 0; i < entries.size(); ++i)
        tensors.push_back(tensor_metadata(slab.tensors[i], entries[i].name));
    json samples = json::array();
    for (const SampleView& sample : slab.samples) {
        samples.push_back({sample.item, sample.key, sample.empty});
        if (!sample.metadata.empty()) samples.back().push_back(sample.metadata);
    }
    json batches = json::array();
    for (const BatchRecord& piece : slab.batches) batches.push_back({piece.batch, piece.first_row, piece.rows});
    const json metadata = {{"format", slab.varies() ? kVaryingPayloadFormat : kPayloadMetadataFormat},
                           {"epoch", slab.epoch},
                           {"slab", slab.slab},
                           {"generation", slab.generation},
                           {"payload_bytes", slab.payload_bytes},
                           {"transform", static_cast<std::uint32_t>(slab.transform)},
                           {"upsample_factor", slab.upsample_factor},
                           {"model", slab.model},
                           {"precision", slab.precision},
                           {"memory_format", slab.memory_format},
                           {"batches", batches},
                           {"samples", samples},
                           {"tensors", tensors}};
    return json_text(metadata);
}

NotedSlab read_payload_metadata(const std::string& text) {
    try {
        const json metadata = parse_json(text);
        const int format = metadata.at("format").get<int>();
        require(format == kPayloadMetadataFormat || format == kVaryingPayloadFormat, "format");
        NotedSlab noted;
        SlabContents& slab = noted.slab;
        slab.epoch = metadata.at("epoch").get<std::uint32_t>();
        slab.slab = metadata.at("slab").get<std::uint32_t>();
        slab.generation = metadata.at("generation").get<std::uint64_t>();
        slab.payload_bytes = metadata.at("payload_bytes").get<std::uint64_t>();
        const auto transform = metadata.at("transform").get<std::uint32_t>();
        require(transform <= static_cast<std::uint32_t>(OutputTransform::LowRes), "transform");
        slab.transform = static_cast<OutputTransform>(transform);
        slab.upsample_factor = metadata.at("upsample_factor").get<std::uint32_t>();
        require(slab.upsample_factor >= 1 && slab.upsample_factor <= kMaxUpsampleFactor, "upsample_factor");
        slab.model = metadata.at("model").get<std::string>();
        slab.precision = metadata.at("precision").get<std::string>();
        slab.memory_format = metadata.at("memory_format").get<std::string>();
        read_rows(metadata, slab);
        for (const json& tensor : metadata.at("tensors")) {
            const TensorSpec spec = read_spec(tensor);
            require(static_cast<std::uint64_t>(spec.rows()) == slab.samples.size(), "shape");
            slab.tensors.push_back({.spec = spec, .bytes = {}});
            if (spec.varies()) read_extents(tensor, slab.tensors.back());
            noted.stored_as.push_back(tensor.at("stored_as").get<std::string>());
        }
        require(slab.tensors.size() <= kMaxTensorsPerSlab, "tensors");
        return noted;
    } catch (const json::exception& problem) {
        throw ProtocolError(std::string("the metadata of a dead letter's payload cannot be read: ") + problem.what());
    }
}

}  // namespace offramp
