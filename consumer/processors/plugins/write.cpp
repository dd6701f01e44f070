#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/raw/row_chunks.hpp"
#include "consumer/processors/raw/sample_array.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/output_name.hpp"
#include "consumer/sinks/files/stream_file.hpp"

namespace offramp {
namespace {

struct WriteSettings {
    const std::string& path;
    bool copies;  // like the article's consumer

    explicit WriteSettings(const CatalogueValues& given)
        : path(given.text("write-path")), copies(given.on("write-copy")) {}
};

// Serialises into a private buffer, as pickling does before a pipe, or passes the bytes through.
class Serialiser {
  public:
    explicit Serialiser(bool copies) : copies_(copies) {}

    // The bytes to write, valid until the next call. The buffer grows to the largest piece and is reused.
    std::span<const std::byte> serialise(std::span<const std::byte> bytes) {
        if (!copies_) return bytes;
        if (buffer_.size() < bytes.size()) buffer_.resize(bytes.size());
        std::memcpy(buffer_.data(), bytes.data(), bytes.size());
        return std::span<const std::byte>(buffer_).first(bytes.size());
    }

  private:
    bool copies_;
    std::vector<std::byte> buffer_;
};

// Writes each output of each sample as FOLDER/KEY.OUTPUT.bin, row-major.
class WriteFiles final : public Processor {
  public:
    WriteFiles(std::string folder, bool copies, Durability durability)
        : folder_(std::move(folder)), durability_(durability), serialiser_(copies) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        for (const SampleView& sample : slab.samples) {
            if (sample.empty) continue;
            for (const TensorView& tensor : slab.tensors) {
                const std::string suffix = "." + std::string(checked_output_name(tensor.spec.name)) + ".bin";
                AtomicFile file(sample_path(folder_, sample.key, suffix), durability_);
                in_chunks(array_.of(tensor, sample.row), progress,
                          [&](std::span<const std::byte> chunk) { file.write(serialiser_.serialise(chunk)); });
                if (!still_current()) return;
                file.commit();
            }
        }
    }

  private:
    std::string folder_;
    Durability durability_;
    SampleArray array_;
    Serialiser serialiser_;
};

// Writes the samples' elements in a stream, output by output, row-major, to a device or FIFO: the article's consumer,
// with /dev/null.
class WriteStream final : public Processor {
  public:
    WriteStream(const std::string& path, bool copies) : stream_(path), serialiser_(copies) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        if (!still_current()) return;
        for (const TensorView& tensor : slab.tensors)
            for (std::size_t row = 0; row < slab.samples.size();) row = write_run(slab, tensor, row, progress);
    }

  private:
    // Bytes per call, so that small samples do not cost a system call each.
    static constexpr std::size_t kWriteBytes = std::size_t{8} << 20U;

    // Writes the samples from `row` on, up to an empty row or kWriteBytes; returns the row after them.
    std::size_t write_run(const SlabContents& slab, const TensorView& tensor, std::size_t row,
                          const Progress& progress) {
        if (slab.samples[row].empty) return row + 1;
        std::size_t end = row + 1;
        auto bytes = array_.of(tensor, row);
        if (!tensor.spec.varies() && is_row_major(tensor.spec)) {
            const std::size_t row_bytes = tensor.spec.row_bytes();
            while (end < slab.samples.size() && !slab.samples[end].empty && (end + 1 - row) * row_bytes <= kWriteBytes)
                ++end;
            bytes = tensor.bytes.subspan(row * row_bytes, (end - row) * row_bytes);
        }
        while (!bytes.empty()) {
            const std::size_t size = std::min(bytes.size(), kWriteBytes);
            stream_.write(serialiser_.serialise(bytes.first(size)));
            bytes = bytes.subspan(size);
            progress();
        }
        for (std::size_t i = row; i < end; ++i) progress();
        return end;
    }

    StreamFile stream_;
    SampleArray array_;
    Serialiser serialiser_;
};

// Needs no merge: it only removes temporary files of dead consumers. In a job's shared folder, live consumers of other
// shards may own such files, on hosts whose locks are not visible here.
class WrittenFolder final : public RunOutput {
  public:
    explicit WrittenFolder(std::string path) : path_(std::move(path)) {}

    std::string look(const ResultSettings& /*own*/) const override { return {}; }
    void finish(const ResultSettings& own) const override {
        std::error_code unknown;
        if (own.samples_folder.empty() && std::filesystem::is_directory(path_, unknown)) remove_leftovers(path_);
    }

  private:
    std::string path_;
};

}  // namespace

// A path that does not exist becomes a folder.
std::unique_ptr<Processor> make_write(const ProcessorOptions& options) {
    const auto& [path, copies] = WriteSettings(options.settings);
    if (path.empty()) throw ConfigError("--write-path is empty", "Give a folder, a FIFO or /dev/null");
    std::error_code unknown;
    const auto kind = std::filesystem::status(path, unknown).type();
    if (kind != std::filesystem::file_type::directory && kind != std::filesystem::file_type::not_found)
        return std::make_unique<WriteStream>(path, copies);
    require_writable_folder(path);
    return std::make_unique<WriteFiles>(path, copies, options.durability());
}

std::unique_ptr<RunOutput> run_output_of_write(const CatalogueValues& settings) {
    return std::make_unique<WrittenFolder>(WriteSettings(settings).path);
}

}  // namespace offramp
