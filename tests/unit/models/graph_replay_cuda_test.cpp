#include <cstring>
#include <filesystem>

#include "producer/device/device.hpp"
#include "producer/device/gpu_search.hpp"
#include "tests/unit/models/model_fixture.hpp"

namespace offramp {
namespace {

// Beside this program, if it was copied to another machine.
ModelLibrary open_carried_models() {
    return std::filesystem::exists(OFFRAMP_MODELS_MODULE) ? open_models() : ModelLibrary::open("");
}

class GraphReplay : public testing::Test {
  protected:
    void SetUp() override {
        const GpuSearch search = find_gpus();
        if (search.count == 0) GTEST_SKIP() << search.obstacle;
        device_ = open_device("cuda");
        device_->use_on_this_thread();
        stream_ = device_->make_stream("compute");
    }

    std::unique_ptr<Model> make(bool cuda_graphs, const std::string& precision) {
        return open_carried_models().make({.name = "encoder",
                                           .batch = kBatch,
                                           .precision = precision,
                                           .deterministic = true,
                                           .cuda_graphs = cuda_graphs,
                                           .device_index = device_->info().index,
                                           .stream = stream_->native()});
    }

    // All batches' embeddings; outputs are held until the end, as by a slow egress.
    std::vector<std::vector<float>> embed(Model& model, const std::vector<std::vector<float>>& batches) {
        std::vector<std::unique_ptr<DeviceBuffer>> inputs;
        std::vector<std::vector<DeviceTensor>> outputs;
        for (const std::vector<float>& batch : batches) {
            inputs.push_back(device_->allocate(batch.size() * sizeof(float), "input"));
            stream_->copy_to_device(inputs.back()->data(), reinterpret_cast<const std::byte*>(batch.data()),
                                    batch.size() * sizeof(float));
            outputs.push_back(model.run(inputs.back()->data()));
        }
        std::vector<std::vector<float>> embeddings;
        for (const std::vector<DeviceTensor>& output : outputs) {
            embeddings.emplace_back(output.front().spec.elements());
            stream_->copy_to_host(reinterpret_cast<std::byte*>(embeddings.back().data()), output.front().data,
                                  embeddings.back().size() * sizeof(float));
        }
        stream_->synchronize();
        return embeddings;
    }

    static std::vector<std::vector<float>> different_batches(const Model& model, int count) {
        std::vector<std::vector<float>> batches;
        for (int i = 0; i < count; ++i) {
            batches.push_back(made_up_input(model));
            for (float& value : batches.back()) value *= 1.0F + 0.25F * static_cast<float>(i);
        }
        return batches;
    }

    static constexpr std::uint32_t kBatch = 8;
    static constexpr int kBatches = 12;
    std::unique_ptr<Device> device_;
    std::unique_ptr<Stream> stream_;
};

TEST_F(GraphReplay, GivesTheModelsBits) {
    for (const char* precision : {"fp32", "bf16"}) {
        const auto itself = make(false, precision);
        const auto replayed = make(true, precision);
        const auto batches = different_batches(*itself, kBatches);
        const auto expected = embed(*itself, batches);
        EXPECT_EQ(expected, embed(*replayed, batches)) << precision;
        EXPECT_NE(expected.front(), expected.back()) << "different inputs have different embeddings";
    }
}

TEST_F(GraphReplay, ReportsTheModelsErrors) {
    const auto itself = make(false, "bf16");
    const auto replayed = make(true, "bf16");
    EXPECT_EQ(itself->description(), replayed->description());
    EXPECT_EQ(itself->outputs(), replayed->outputs());
    EXPECT_EQ(itself->input().tensor, replayed->input().tensor);
    EXPECT_EQ(itself->parameters(), replayed->parameters());
}

}  // namespace
}  // namespace offramp
