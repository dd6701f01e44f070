#include "producer/runner/kernels/picture_encoder.hpp"

#include <nvjpeg.h>

#include <array>
#include <string>

#include "common/base/error.hpp"
#include "producer/device/cuda_failure.hpp"
#include "producer/runner/kernels/nvjpeg.hpp"

namespace offramp {
namespace {

// nvJPEG has one picture in work per state. While one file's length is waited for, the others are encoded.
constexpr std::size_t kAtOnce = 4;

// Owns nvJPEG's handle, parameters and states, and their streams.
class NvJpegEncoder final : public PictureEncoder {
  public:
    NvJpegEncoder(Device& device, int quality) : calls_(NvJpeg::open()) {
        try {
            set_up(calls_.create(NVJPEG_BACKEND_DEFAULT, nullptr, nullptr, 0, &handle_));
            for (Lane& lane : lanes_) {
                lane.stream = device.make_stream("encode");
                set_up(calls_.create_encoder(handle_, &lane.state, native(lane)));
            }
            Lane& first = lanes_.front();
            set_up(calls_.create_encoder_params(handle_, &params_, native(first)));
            set_up(calls_.set_quality(params_, quality, native(first)));
            set_up(calls_.set_sampling(params_, NVJPEG_CSS_420, native(first)));
            first.stream->synchronize();
        } catch (...) {
            close();
            throw;
        }
    }
    NvJpegEncoder(const NvJpegEncoder&) = delete;
    NvJpegEncoder& operator=(const NvJpegEncoder&) = delete;
    ~NvJpegEncoder() override { close(); }

    std::vector<File> encode(std::span<const Picture> pictures,
                             const std::function<std::byte*(std::size_t bytes)>& room) override {
        try {
            return encode_in_lanes(pictures, room);
        } catch (...) {
            // They read pixels that the caller owns. Throws instead if the GPU was lost, which nvJPEG does not say.
            for (Lane& lane : lanes_) lane.stream->synchronize();
            throw;
        }
    }

  private:
    struct Lane {
        std::unique_ptr<Stream> stream;
        nvjpegEncoderState_t state = nullptr;
    };

    std::vector<File> encode_in_lanes(std::span<const Picture> pictures,
                                      const std::function<std::byte*(std::size_t bytes)>& room) {
        std::vector<File> files(pictures.size());
        for (std::size_t i = 0; i < pictures.size() + kAtOnce; ++i) {
            Lane& lane = lanes_[i % kAtOnce];
            if (i >= kAtOnce && i - kAtOnce < pictures.size()) files[i - kAtOnce] = retrieve(lane, room);
            if (i < pictures.size()) start(lane, pictures[i]);
        }
        for (Lane& lane : lanes_) lane.stream->synchronize();
        return files;
    }

    static cudaStream_t native(const Lane& lane) { return static_cast<cudaStream_t>(lane.stream->native()); }

    static void set_up(nvjpegStatus_t status) {
        if (status != NVJPEG_STATUS_SUCCESS)
            NvJpeg::refuse(status, "pictures cannot be encoded on this GPU", "--encode");
    }

    static void check(nvjpegStatus_t status, const std::string& step) {
        if (status == NVJPEG_STATUS_SUCCESS) return;
        if (status == NVJPEG_STATUS_ALLOCATOR_FAILURE)
            throw CudaError(ErrorKind::DeviceOutOfMemory, "nvJPEG has no memory on the GPU for " + step,
                            "Leave --encode out, or give a smaller --batch");
        throw Error(ErrorKind::Internal, "nvJPEG failed at " + step + ": " + NvJpeg::describe(status),
                    "Leave --encode out, so that consumers encode");
    }

    void start(Lane& lane, const Picture& picture) {
        nvjpegImage_t image{};
        const std::size_t plane = std::size_t{picture.width} * picture.height;
        auto* const pixels = const_cast<unsigned char*>(picture.pixels);
        const bool interleaved = picture.channels_last && picture.channels == 3;
        for (std::size_t c = 0; c < (interleaved ? 1 : 3); ++c) {
            image.channel[c] = pixels + (picture.channels == 3 ? c * plane : 0);
            image.pitch[c] = std::size_t{picture.width} * (interleaved ? 3 : 1);
        }
        check(calls_.encode(handle_, lane.state, params_, &image, interleaved ? NVJPEG_INPUT_RGBI : NVJPEG_INPUT_RGB,
                            static_cast<int>(picture.width), static_cast<int>(picture.height), native(lane)),
              "a picture of " + std::to_string(picture.width) + " x " + std::to_string(picture.height) + " pixels");
    }

    File retrieve(Lane& lane, const std::function<std::byte*(std::size_t bytes)>& room) {
        File file;
        check(calls_.retrieve(handle_, lane.state, nullptr, &file.bytes, native(lane)), "reading a file's length");
        lane.stream->synchronize();  // the length is known
        file.data = room(file.bytes);
        check(calls_.retrieve(handle_, lane.state, reinterpret_cast<unsigned char*>(file.data), &file.bytes,
                              native(lane)),
              "reading a file");
        return file;
    }

    void close() noexcept {
        for (Lane& lane : lanes_)
            if (lane.state != nullptr) calls_.destroy_encoder(lane.state);
        if (params_ != nullptr) calls_.destroy_encoder_params(params_);
        if (handle_ != nullptr) calls_.destroy(handle_);
    }

    const NvJpeg& calls_;
    nvjpegHandle_t handle_ = nullptr;
    nvjpegEncoderParams_t params_ = nullptr;
    std::array<Lane, kAtOnce> lanes_;
};

}  // namespace

std::unique_ptr<PictureEncoder> PictureEncoder::open(Device& device, int quality) {
    if (!device.is_gpu())
        throw ConfigError("pictures cannot be encoded on a GPU: this run uses the CPU",
                          "Leave --encode out, or run on a GPU (--device cuda)");
    return std::make_unique<NvJpegEncoder>(device, quality);
}

}  // namespace offramp
