#include "producer/runner/kernels/jpeg_decoder.hpp"

#include <nvjpeg.h>

#include <vector>

#include "common/base/error.hpp"
#include "producer/runner/kernels/nvjpeg.hpp"

namespace offramp {
namespace {

class NvJpegDecoder final : public JpegDecoder {
  public:
    NvJpegDecoder(const NvJpeg& calls, Engine engine) : calls_(calls) {
        // Only a GPU without engines uses its cores: pixels differ a little between them.
        bool has_engines = false;
        if (engine == Engine::Any) {
            const nvjpegStatus_t status = open_handle(NVJPEG_BACKEND_HARDWARE);
            has_engines = status == NVJPEG_STATUS_SUCCESS;
            if (!has_engines && !lacks_engines(status)) refuse(status);
        }
        if (has_engines) {
            unsigned cores_per_engine = 0;
            if (calls_.engines != nullptr) calls_.engines(handle_, &engines_, &cores_per_engine);
        } else if (const nvjpegStatus_t status = open_handle(NVJPEG_BACKEND_GPU_HYBRID);
                   status != NVJPEG_STATUS_SUCCESS) {
            refuse(status);
        }
        if (const nvjpegStatus_t status = calls_.create_state(handle_, &state_); status != NVJPEG_STATUS_SUCCESS) {
            calls_.destroy(handle_);
            refuse(status);
        }
    }
    NvJpegDecoder(const NvJpegDecoder&) = delete;
    NvJpegDecoder& operator=(const NvJpegDecoder&) = delete;
    ~NvJpegDecoder() override {
        calls_.destroy_state(state_);
        calls_.destroy(handle_);
    }

    std::string description() const override {
        return "nvJPEG " + calls_.version() +
               (engines_ > 0 ? " with " + std::to_string(engines_) + " JPEG engines" : " on the GPU's cores");
    }

    // On its cores, nvJPEG decodes more than 50 files side by side, and fewer one after another.
    std::size_t files_at_once() const override { return engines_ > 0 ? 32 : 64; }

    std::string submit(Stream& stream, std::span<const Picture> pictures) override {
        files_.clear();
        lengths_.clear();
        images_.clear();
        for (const Picture& picture : pictures) {
            files_.push_back(reinterpret_cast<const unsigned char*>(picture.file.data()));
            lengths_.push_back(picture.file.size());
            images_.push_back({});
            images_.back().channel[0] = picture.rgb;
            images_.back().pitch[0] = std::size_t{picture.width} * 3;
        }
        nvjpegStatus_t status = NVJPEG_STATUS_SUCCESS;
        if (pictures.size() != prepared_for_)
            status = calls_.prepare(handle_, state_, static_cast<int>(pictures.size()), 1, NVJPEG_OUTPUT_RGBI);
        prepared_for_ = status == NVJPEG_STATUS_SUCCESS ? pictures.size() : 0;
        if (status == NVJPEG_STATUS_SUCCESS)
            status = calls_.decode(handle_, state_, files_.data(), lengths_.data(), images_.data(),
                                   static_cast<cudaStream_t>(stream.native()));
        if (status == NVJPEG_STATUS_SUCCESS) return {};
        prepared_for_ = 0;
        stream.synchronize();  // unfinished work reads the files; throws if the GPU was lost
        return NvJpeg::describe(status);
    }

  private:
    nvjpegStatus_t open_handle(nvjpegBackend_t backend) {
        return calls_.create(backend, nullptr, nullptr, 0, &handle_);
    }
    static bool lacks_engines(nvjpegStatus_t status) {
        return status == NVJPEG_STATUS_ARCH_MISMATCH || status == NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED ||
               status == NVJPEG_STATUS_JPEG_NOT_SUPPORTED;
    }
    [[noreturn]] static void refuse(nvjpegStatus_t status) {
        NvJpeg::refuse(status, "pictures cannot be decoded on this GPU", "--decode");
    }

    const NvJpeg& calls_;
    nvjpegHandle_t handle_ = nullptr;
    nvjpegJpegState_t state_ = nullptr;
    unsigned engines_ = 0;
    std::size_t prepared_for_ = 0;  // files
    std::vector<const unsigned char*> files_;
    std::vector<std::size_t> lengths_;
    std::vector<nvjpegImage_t> images_;
};

}  // namespace

std::unique_ptr<JpegDecoder> JpegDecoder::open(const Device& device, Engine engine) {
    if (!device.is_gpu())
        throw ConfigError("pictures cannot be decoded on a GPU: this run uses the CPU",
                          "Leave --decode out, or run on a GPU (--device cuda)");
    return std::make_unique<NvJpegDecoder>(NvJpeg::open(), engine);
}

}  // namespace offramp
