#pragma once

#include <nvjpeg.h>

#include <string>

namespace offramp {

// The functions of nvJPEG that this program calls. The library is opened at run time: it is needed only for pictures
// that a GPU decodes or encodes.
struct NvJpeg {
    decltype(&::nvjpegCreateEx) create;
    decltype(&::nvjpegDestroy) destroy;
    decltype(&::nvjpegGetProperty) property;
    decltype(&::nvjpegGetHardwareDecoderInfo) engines;  // null: an old version without it
    decltype(&::nvjpegJpegStateCreate) create_state;
    decltype(&::nvjpegJpegStateDestroy) destroy_state;
    decltype(&::nvjpegDecodeBatchedInitialize) prepare;
    decltype(&::nvjpegDecodeBatched) decode;
    decltype(&::nvjpegEncoderStateCreate) create_encoder;
    decltype(&::nvjpegEncoderStateDestroy) destroy_encoder;
    decltype(&::nvjpegEncoderParamsCreate) create_encoder_params;
    decltype(&::nvjpegEncoderParamsDestroy) destroy_encoder_params;
    decltype(&::nvjpegEncoderParamsSetQuality) set_quality;
    decltype(&::nvjpegEncoderParamsSetSamplingFactors) set_sampling;
    decltype(&::nvjpegEncodeImage) encode;
    decltype(&::nvjpegEncodeRetrieveBitstreamDevice) retrieve;

    // The library, opened by the first call. It is never closed. Thread: any. Errors: ConfigError: it is not there, or
    // lacks a function.
    static const NvJpeg& open();
    std::string version() const;  // "13.0"
    // "NVJPEG_STATUS_BAD_JPEG (3)"
    static std::string describe(nvjpegStatus_t status);
    // Throws for a status of setting up: CudaError without memory, else ConfigError. `flag`: to leave out.
    [[noreturn]] static void refuse(nvjpegStatus_t status, const std::string& problem, const std::string& flag);
};

}  // namespace offramp
