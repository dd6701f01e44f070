#include "producer/runner/models/file_model.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <set>
#include <utility>

#include "common/base/error.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/runner/models/network_file.hpp"
#include "producer/runner/models/run_failure.hpp"

namespace offramp {
namespace {

constexpr std::size_t kMostRefused = 16;  // of a model that has taken no shape
constexpr std::size_t kMostOutputs = 16;  // the limit of a slab

DType output_dtype(const at::Tensor& tensor, const std::string& what) {
    const auto dtype = dtype_of(tensor.scalar_type());
    if (!dtype)
        throw ConfigError(what + " has elements of type " + c10::toString(tensor.scalar_type()),
                          "A model's outputs are floats of 16 to 64 bits, integers, uint8 or bool",
                          ErrorKind::BadInput);
    return *dtype;
}

std::string shape_of(at::IntArrayRef shape) {
    std::string text;
    for (const std::int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
    return "[" + text + "]";
}

std::string shape_of(const at::Tensor& tensor) { return shape_of(tensor.sizes()); }

// Outputs with a holder besides `made`: a network's own buffer, which the next batch may overwrite during this one's
// copy. Outputs in the same memory hold it together.
std::vector<bool> are_lent(const std::vector<FileNetwork::Output>& made) {
    std::vector<bool> lent;
    for (const FileNetwork::Output& output : made) {
        const at::Tensor& tensor = output.tensor;
        std::size_t handles = 0;
        std::set<const c10::TensorImpl*> in_its_memory;
        for (const FileNetwork::Output& other : made) {
            handles += other.tensor.is_same(tensor) ? 1 : 0;
            if (other.tensor.is_alias_of(tensor)) in_its_memory.insert(other.tensor.unsafeGetTensorImpl());
        }
        lent.push_back(tensor.use_count() > handles || tensor.storage().use_count() > in_its_memory.size());
    }
    return lent;
}

class FileModel final : public Model {
  public:
    FileModel(const ModelOptions& options, const std::function<std::unique_ptr<FileNetwork>(const Execution&)>& load)
        : execution_(options), file_("the model '" + options.name + "'") {
        if ((options.precision == "bf16") != (options.metadata.precision == "bf16"))
            throw ConfigError("--precision " + options.precision + " does not go with --model '" + options.name +
                                  "', which was not made for that precision",
                              "Leave --precision out, or export it again with --precision " + options.precision);
        input_ = stated_input();
        execution_.state_input(fed(), fix_for_input());
        execution_.in([&] {
            network_ = load(execution_);
            if (const auto inputs = network_->inputs()) check_inputs(*inputs, metadata(), options.name);
            if (input_.tensor.varies())
                learn_outputs();
            else
                state_outputs(network_->run(inputs_of(dry_batch(input_.tensor.with_rows(network_batch())))));
            note_declared_shapes();
            if (input_.group_rows > 0) check_short_rows();
        });
    }

    std::string description() const override {
        std::string text =
            std::filesystem::path(execution_.options().name).filename().string() + ", " + network_->description();
        std::string separator = ": ";
        for (const TensorSpec& output : outputs()) text += std::exchange(separator, ", ") + output.describe();
        return text;
    }
    std::uint64_t parameters() const override { return network_->parameters(); }
    bool random_weights() const override { return metadata().random_weights; }
    std::string warning() const override { return network_->warning(); }
    ModelInput input() const override { return input_; }
    std::vector<TensorSpec> outputs() const override {
        std::vector<TensorSpec> specs = outputs_;
        for (std::size_t i = 0; i < specs.size(); ++i) {
            if (!of_tokens_[i]) continue;
            specs[i].shape[1] = kVarying;
            specs[i].strides = {};
        }
        return specs;
    }

    std::vector<std::vector<std::int64_t>> largest_samples() const override {
        std::vector<std::vector<std::int64_t>> largest = largest_;
        for (std::size_t i = 0; i < outputs_.size(); ++i)
            if (of_tokens_[i]) largest[i] = {outputs_[i].shape[1]};
        return largest;
    }

    std::vector<DeviceTensor> run(const void* input) override {
        if (input_.group_rows > 0) return run_groups(input);
        return execution_.in([&] {
            std::vector<DeviceTensor> tensors = run_on(execution_.view(input, input_.tensor));
            for (std::size_t i = 0; i < tensors.size(); ++i)
                if (of_tokens_[i])
                    tensors[i].spec = of_token_rows(outputs_[i], outputs_[i].shape[0] * outputs_[i].shape[1]);
            return tensors;
        });
    }

    std::vector<DeviceTensor> run_in_shape(const void* input, const TensorSpec& shape) override {
        state_sample(shape);
        return execution_.in([&] { return run_on(execution_.view(input, shape)); });
    }

    std::vector<DeviceTensor> run_by_length(const void* input, const LengthGroups& groups) override {
        return execution_.in([&] {
            const auto* const bytes = static_cast<const std::byte*>(input);
            std::vector<at::Tensor> ordered = empty_outputs(static_cast<std::int64_t>(groups.padded_tokens));
            std::int64_t row = 0;
            std::int64_t token = 0;
            for (const LengthGroups::Group& group : groups.groups) {
                compute_group(bytes + group.offset, group.length, row, token, ordered);
                row += network_batch();
                token += std::int64_t{network_batch()} * group.length;
            }
            const TensorSpec spec = TensorSpec::contiguous("places", kInt64, std::array{input_.tensor.shape[0]});
            const at::Tensor places = execution_.view(bytes, spec);
            for (std::size_t i = 0; i < ordered.size(); ++i) {
                if (of_tokens_[i]) continue;  // each text's own rows are found by its TokenRows
                if (row < input_.tensor.shape[0]) ordered[i].slice(0, row).zero_();
                ordered[i] = at::index_select(ordered[i], 0, places);
            }
            return hand_out_all(std::move(ordered));
        });
    }

  private:
    std::vector<DeviceTensor> run_on(const at::Tensor& given) {
        std::vector<FileNetwork::Output> made = outputs_of(given);
        std::vector<DeviceTensor> tensors;
        tensors.reserve(outputs_.size());
        const std::vector<bool> lent = are_lent(made);
        for (std::size_t i = 0; i < made.size(); ++i) {
            const bool is_lent = lent[i] || made[i].tensor.is_alias_of(given);
            const TensorSpec spec = of_batch(outputs_[i], made[i].tensor, given.size(0));
            tensors.push_back(hand_out(std::move(made[i].tensor), spec, is_lent));
        }
        return tensors;
    }

    // The output of a batch: with the made tensor's extents where batches differ.
    static TensorSpec of_batch(const TensorSpec& output, const at::Tensor& made, std::int64_t rows) {
        if (!output.varies() || made.dim() != static_cast<std::int64_t>(output.dims)) return output.with_rows(rows);
        std::vector<std::int64_t> shape(output.shape.begin(),
                                        output.shape.begin() + static_cast<std::ptrdiff_t>(output.dims));
        shape[0] = rows;
        for (std::size_t dim = 1; dim < output.dims; ++dim)
            if (shape[dim] == kVarying) shape[dim] = made.size(static_cast<std::int64_t>(dim));
        return TensorSpec::contiguous(output.name, output.dtype, shape);
    }

    // Computes samples of the least and the greatest extents: the outputs vary where their extents differ. Others take
    // the places of refused ones, whose items are skipped later. A model that takes none of the first ones takes none.
    void learn_outputs() {
        std::set<SampleShape> learned, refused;
        std::exception_ptr first_refusal;
        for (bool again = true; again;) {
            again = false;
            for (const auto& [shape, item] : execution_.options().shapes(refused)) {
                if (learned.contains(shape)) continue;
                try {
                    execution_.in([&] { learn_from(shape, item); });
                    learned.insert(shape);
                } catch (const RefusedInput&) {
                    if (!first_refusal) first_refusal = std::current_exception();
                    refused.insert(shape);
                    again = true;
                }
            }
            if (learned.empty() && (!again || refused.size() >= kMostRefused)) std::rethrow_exception(first_refusal);
        }
    }

    void learn_from(const SampleShape& shape, const std::string& item) {
        const TensorSpec sample = in_shape(input_.tensor, 1, shape);
        state_sample(sample, " (" + item + ")");
        const bool is_first = outputs_.empty();
        std::vector<FileNetwork::Output> made = network_->run(inputs_of(dry_batch(sample)));
        if (is_first) {
            state_outputs(made);
            for (TensorSpec& output : outputs_) output = row_major(output);
            return;
        }
        if (made.size() != network_outputs_) refuse_number(made.size());
        for (std::size_t i = 0; i < outputs_.size(); ++i) note_extents(i, made[chosen_[i]].tensor);
    }

    static TensorSpec row_major(const TensorSpec& spec) {
        return TensorSpec::contiguous(spec.name, spec.dtype, std::span(spec.shape).first(spec.dims));
    }

    const ModelMetadata& metadata() const { return execution_.options().metadata; }

    // Rows per call of the network.
    std::uint32_t network_batch() const {
        const ModelOptions& options = execution_.options();
        return options.group_rows > 0 ? options.group_rows : options.batch;
    }

    // Runs a batch of full length group by group, in memory order.
    std::vector<DeviceTensor> run_groups(const void* input) {
        return execution_.in([&] {
            const auto* bytes = static_cast<const std::byte*>(input);
            const std::int64_t length = input_.tensor.shape[2];
            std::vector<at::Tensor> made = empty_outputs(input_.tensor.shape[0] * length);
            for (std::int64_t row = 0; row < input_.tensor.shape[0]; row += network_batch()) {
                compute_group(bytes, length, row, row * length, made);
                bytes += network_batch() * input_.tensor.row_bytes();
            }
            return hand_out_all(std::move(made));
        });
    }

    at::Tensor empty_output(const TensorSpec& spec) const {
        return at::empty_strided(at::IntArrayRef(spec.shape.data(), spec.dims),
                                 at::IntArrayRef(spec.strides.data(), spec.dims),
                                 at::TensorOptions().dtype(scalar_type(spec.dtype)).device(execution_.device()));
    }

    // `tokens`: of the batch, padding included.
    std::vector<at::Tensor> empty_outputs(std::int64_t tokens) const {
        std::vector<at::Tensor> tensors;
        tensors.reserve(outputs_.size());
        for (std::size_t i = 0; i < outputs_.size(); ++i)
            tensors.push_back(empty_output(of_tokens_[i] ? of_token_rows(outputs_[i], tokens) : outputs_[i]));
        return tensors;
    }

    // An output [batch, length, ...] as [tokens, ...].
    static TensorSpec of_token_rows(const TensorSpec& spec, std::int64_t tokens) {
        std::vector<std::int64_t> shape(spec.shape.begin() + 1,
                                        spec.shape.begin() + static_cast<std::ptrdiff_t>(spec.dims));
        shape.front() = tokens;
        return TensorSpec::contiguous(spec.name, spec.dtype, shape);
    }

    // Tensors owned by this model.
    std::vector<DeviceTensor> hand_out_all(std::vector<at::Tensor> made) const {
        std::vector<DeviceTensor> tensors;
        tensors.reserve(made.size());
        for (std::size_t i = 0; i < made.size(); ++i) {
            const TensorSpec spec = of_tokens_[i] ? of_token_rows(outputs_[i], made[i].size(0)) : outputs_[i];
            tensors.push_back(hand_out(std::move(made[i]), spec, false));
        }
        return tensors;
    }

    // Computes the group that begins with these rows and tokens of the batch.
    void compute_group(const std::byte* tokens, std::int64_t length, std::int64_t row, std::int64_t token,
                       std::vector<at::Tensor>& to) {
        const std::int64_t rows = network_batch();
        const TensorSpec spec = TensorSpec::contiguous("tokens", kInt32, std::array<std::int64_t, 3>{rows, 2, length});
        const std::vector<FileNetwork::Output> made = outputs_of(execution_.view(tokens, spec));
        for (std::size_t i = 0; i < made.size(); ++i) {
            check_shape(made[i].tensor, of_group(i, length));
            if (of_tokens_[i])
                to[i].narrow(0, token, rows * length).copy_(made[i].tensor.flatten(0, 1));
            else
                to[i].narrow(0, row, rows).copy_(made[i].tensor);
        }
    }

    // The output of one call of the network, for rows of `length` tokens.
    TensorSpec of_group(std::size_t output, std::int64_t length) const {
        TensorSpec spec = outputs_[output].with_rows(network_batch());
        if (of_tokens_[output]) spec.shape[1] = length;
        return spec;
    }

    // The outputs that the run delivers.
    std::vector<FileNetwork::Output> outputs_of(const at::Tensor& given) {
        std::vector<FileNetwork::Output> made = network_->run(inputs_of(given));
        if (made.size() != network_outputs_) refuse_number(made.size());
        if (chosen_.size() == made.size()) return made;
        std::vector<FileNetwork::Output> chosen;
        for (const std::size_t index : chosen_) chosen.push_back(std::move(made[index]));
        return chosen;
    }

    [[noreturn]] void refuse_number(std::size_t outputs) const {
        throw RunFailure({.kind = FailureCause::Kind::Model},
                         file_ + " gave " + std::to_string(outputs) + " outputs where the first batch had " +
                             std::to_string(network_outputs_),
                         "Use a model that always gives the same number of outputs");
    }

    // `made`: of rows of the least length.
    bool follows_length(const at::Tensor& made, const TensorSpec& output) const {
        return output.dims >= 3 && static_cast<std::int64_t>(output.dims) == made.dim() &&
               output.shape[1] == metadata().token_length() && made.size(1) == LengthGroups::kShortest;
    }

    // Verifies the any-length claim of the metadata.
    void check_short_rows() {
        const std::int64_t shape[] = {network_batch(), 2, LengthGroups::kShortest};
        const auto options = at::TensorOptions().dtype(at::kInt).device(execution_.device());
        std::string of_tokens;
        try {
            const std::vector<FileNetwork::Output> made = outputs_of(at::ones(shape, options));
            for (std::size_t i = 0; i < made.size(); ++i) {
                if (!of_tokens_[i] && follows_length(made[i].tensor, outputs_[i]))
                    of_tokens = outputs_[i].name;
                else
                    check_shape(made[i].tensor, of_group(i, LengthGroups::kShortest));
            }
        } catch (const std::exception& problem) {
            execution_.require_device(problem.what());
            throw ConfigError(file_ + " does not take rows of " + std::to_string(LengthGroups::kShortest) +
                                  " tokens, though " + metadata().file +
                                  " declares any-length: " + cause_in(problem.what()),
                              "Use --by-length off, or export it again", ErrorKind::BadInput);
        }
        if (!of_tokens.empty())
            throw ConfigError("the output '" + of_tokens + "' of " + file_ + " has a row for each token of a text",
                              "Give --output-tensor " + of_tokens +
                                  " to get each text's own, or --by-length off to get rows of one length");
    }

    ModelInput stated_input() const {
        const ModelOptions& options = execution_.options();
        const DType dtype = metadata().input_dtype == "bfloat16" ? kBFloat16
                            : metadata().takes_tokens()          ? kInt32
                                                                 : kFloat32;
        ModelInput input{.kind = InputKind::Image, .mean = metadata().mean, .std = metadata().std};
        if (metadata().batch != 0 && metadata().batch != network_batch())
            throw ConfigError((options.group_rows > 0 ? "--by-length " : "--batch ") + std::to_string(network_batch()) +
                                  " does not go with --model '" + options.name + "', which takes batches of " +
                                  std::to_string(metadata().batch) + " only (" + metadata().file + ")",
                              (options.group_rows > 0 ? "Use --by-length " : "Use --batch ") +
                                  std::to_string(metadata().batch) + ", or export it with --batch " +
                                  std::to_string(network_batch()));
        std::vector<std::int64_t> shape{options.batch};
        if (metadata().takes_arrays()) {
            input.kind = InputKind::Arrays;
            input.parts = lay_out_parts(metadata().inputs, options.batch);
            shape.push_back(static_cast<std::int64_t>(part_row_bytes(input.parts)));
            input.tensor = TensorSpec::contiguous("inputs", kUInt8, shape);
            return input;
        }
        if (!metadata().inputs.empty()) {
            input.kind = InputKind::Feature;
            input.group_rows = options.group_rows;
            input.prompt = metadata().prompt;
            shape.insert(shape.end(), {2, metadata().token_length()});
            input.tensor = TensorSpec::contiguous("tokens", kInt32, shape);
            return input;
        }
        if (!metadata().takes_pictures()) {
            input.kind = InputKind::Feature;
            if (metadata().takes_tokens()) input.group_rows = options.group_rows;
            input.prompt = metadata().prompt;
            shape.insert(shape.end(), metadata().input_shape.begin(), metadata().input_shape.end());
            input.tensor = TensorSpec::contiguous(metadata().takes_tokens() ? "tokens" : "input", dtype, shape);
            return input.tensor.varies() ? varying(input) : input;
        }
        if (options.shapes) {
            shape.insert(shape.end(), {3, kVarying, kVarying});
            input.tensor = TensorSpec::contiguous("image", dtype, shape);
            order_colours(input);
            return varying(input);
        }
        const std::int64_t height = options.image_size != 0 ? options.image_size : metadata().height;
        const std::int64_t width = options.image_size != 0 ? options.image_size : metadata().width;
        expect(height > 0 && width > 0, "the pictures' size is settled");
        shape.insert(shape.end(), {3, height, width});
        input.tensor = TensorSpec::contiguous("image", dtype, shape);
        if (options.memory_format == "channels-last") input.tensor.strides = {3 * height * width, 1, 3 * width, 3};
        order_colours(input);
        return input;
    }

    void order_colours(ModelInput& input) const {
        if (metadata().colour_order != "bgr") return;
        std::ranges::reverse(input.mean);
        std::ranges::reverse(input.std);
    }

    ModelInput varying(ModelInput input) const {
        const ModelOptions& options = execution_.options();
        if (!options.shapes)
            throw ConfigError("the model takes samples that differ in shape, " + input.tensor.describe() +
                                  ", and this input gives none",
                              "Give --input FOLDER, which has a .npy file for each sample", ErrorKind::Usage);
        if (metadata().batch > 1)
            throw ConfigError(file_ + " takes batches of " + std::to_string(metadata().batch) +
                                  " only, and items of different shapes make smaller ones",
                              "Export it with --batch 1, or as TorchScript", ErrorKind::Usage);
        if (options.memory_format != "contiguous")
            throw ConfigError(
                "--memory-format " + options.memory_format + " does not go with items that differ in shape",
                "Give --memory-format contiguous", ErrorKind::Usage);
        input.tensor.strides = {};
        return input;
    }

    // The network's input tensors, from the uploaded batch. Tensors cut out of it have their own memory.
    std::vector<at::Tensor> inputs_of(const at::Tensor& given) const {
        if (metadata().inputs.empty()) return {in_its_colours(given)};
        std::vector<at::Tensor> inputs;
        for (const InputMetadata& input : metadata().inputs)
            inputs.push_back(metadata().takes_tokens() ? tokens_of(given, input)
                                                       : array_of(given, input_.parts[inputs.size()], input.dtype));
        return inputs;
    }

    at::Tensor tokens_of(const at::Tensor& given, const InputMetadata& input) const {
        const auto options = at::TensorOptions().dtype(scalar_type(input.dtype)).device(execution_.device());
        at::Tensor tensor = at::zeros({given.size(0), given.size(2)}, options);
        if (input.tokens != "types") tensor.copy_(given.select(1, input.tokens == "ids" ? 0 : 1));
        return tensor;
    }

    at::Tensor array_of(const at::Tensor& given, const InputPart& part, DType dtype) const {
        TensorSpec in_the_rows = part.tensor;
        in_the_rows.strides[0] = given.size(1) / static_cast<std::int64_t>(part.tensor.dtype.bytes());
        const auto* const bytes = static_cast<const std::uint8_t*>(given.const_data_ptr());
        at::Tensor tensor = at::empty(at::IntArrayRef(part.tensor.shape.data(), part.tensor.dims),
                                      at::TensorOptions().dtype(scalar_type(dtype)).device(execution_.device()));
        tensor.copy_(execution_.view(bytes + part.offset, in_the_rows));
        return tensor;
    }

    // The source's pictures, with colours in the model's order.
    at::Tensor in_its_colours(const at::Tensor& image) const {
        if (input_.kind != InputKind::Image || metadata().colour_order != "bgr") return image;
        return image.flip(1).contiguous(execution_.memory_format());
    }

    // Describes the network's input and where that description comes from.
    std::string fed() const {
        if (!input_.parts.empty()) return describe_parts(input_.parts) + ", from " + metadata().file;
        const TensorSpec spec = input_.tensor.with_rows(network_batch());
        const bool pictures = input_.kind == InputKind::Image;
        if (spec.varies()) return spec.describe();
        const std::string by = !metadata().shape_from.empty() ? metadata().shape_from
                               : execution_.options().image_size != 0 && pictures
                                   ? "--image-size " + std::to_string(execution_.options().image_size)
                                   : metadata().file;
        return spec.describe() + (pictures ? ", pictures by " : ", by ") + by;
    }

    void state_sample(const TensorSpec& sample, const std::string& of = {}) {
        execution_.state_input(sample.describe() + of, "Leave items of this shape out, or use a model that takes them");
    }

    std::string fix_for_input() const {
        if (!metadata().inputs.empty()) return "Describe one sample of each input in its tables [[input]]";
        return "Describe one sample in " + metadata().file +
               ": input-shape = \"1x32x48x48\" unless it is a picture (input-dtype names its "
               "type), image-size = N for a picture (or --image-size)";
    }

    at::Tensor dry_batch(const TensorSpec& spec) const {
        return at::zeros(at::IntArrayRef(spec.shape.data(), spec.dims),
                         at::TensorOptions().dtype(scalar_type(spec.dtype)).device(execution_.device()))
            .contiguous(input_.kind == InputKind::Image ? execution_.memory_format() : at::MemoryFormat::Contiguous);
    }

    void state_outputs(const std::vector<FileNetwork::Output>& made) {
        if (made.empty() || made.size() > kMostOutputs)
            throw ConfigError(file_ + " gives " + std::to_string(made.size()) + " outputs", "A slab holds 1 to 16",
                              ErrorKind::BadInput);
        if (!metadata().outputs.empty() && metadata().outputs.size() != made.size())
            throw ConfigError(metadata().file + " names " + std::to_string(metadata().outputs.size()) +
                                  " outputs, and " + file_ + " gives " + std::to_string(made.size()),
                              "Name each of them, in their order, or leave 'outputs' out", ErrorKind::Config);
        std::vector<std::string> names = metadata().outputs;
        if (names.empty())
            for (const FileNetwork::Output& output : made) names.push_back(output.name);
        names = distinct_output_names(std::move(names));
        network_outputs_ = made.size();
        chosen_ = chosen_of(names);
        for (const std::size_t index : chosen_) {
            TensorSpec spec = stated(made[index].tensor, names[index]).with_rows(execution_.options().batch);
            of_tokens_.push_back(is_of_tokens(spec));
            if (of_tokens_.back())
                spec = TensorSpec::contiguous(spec.name, spec.dtype, std::span(spec.shape).first(spec.dims));
            shapes_of_samples_.push_back({sample_shape(made[index].tensor)});
            outputs_.push_back(std::move(spec));
        }
        largest_.resize(outputs_.size());
    }

    static std::vector<std::int64_t> sample_shape(const at::Tensor& made) {
        return {made.sizes().begin() + 1, made.sizes().end()};
    }

    // `made`: the output for a sample of another shape than the first one's.
    void note_extents(std::size_t output, const at::Tensor& made) {
        const TensorSpec& first = outputs_[output];
        if (made.dim() != static_cast<std::int64_t>(first.dims) || made.size(0) != 1)
            throw ConfigError(file_ + " gave the output '" + first.name + "' of shape " + shape_of(made) +
                                  " where the first sample's was " + shape_of(shapes_of_samples_[output].front()),
                              "Use a model whose outputs have the same number of dimensions for every input",
                              ErrorKind::BadInput);
        shapes_of_samples_[output].push_back(sample_shape(made));
    }

    // Adds what the metadata says to what was learned.
    void note_declared_shapes() {
        const auto& declared = metadata().output_shapes;
        if (!declared.empty() && declared.size() != network_outputs_)
            throw ConfigError(metadata().file + ": output-shapes has " + std::to_string(declared.size()) +
                                  " shapes, and " + file_ + " gives " + std::to_string(network_outputs_) + " outputs",
                              "Give the shape of a sample of each output, in order", ErrorKind::Config);
        for (std::size_t i = 0; i < outputs_.size(); ++i) {
            if (!declared.empty()) note_declared_shape(outputs_[i], declared[chosen_[i]]);
            if (!of_tokens_[i]) settle_extents(i);
        }
    }

    void note_declared_shape(TensorSpec& output, std::span<const std::int64_t> declared) {
        bool fits = declared.size() + 1 == output.dims;
        for (std::size_t dim = 1; fits && dim < output.dims; ++dim)
            fits = declared[dim - 1] == kVarying || declared[dim - 1] == output.shape[dim];
        if (!fits)
            throw ConfigError(
                metadata().file + ": output-shapes does not fit the " + describe_output(output) + " of " + file_,
                "Give the shape of a sample, with '?' where batches differ", ErrorKind::Config);
        for (std::size_t dim = 1; dim < output.dims; ++dim)
            if (declared[dim - 1] == kVarying) {
                output.shape[dim] = kVarying;
                input_.needs_all_rows = true;
            }
    }

    void settle_extents(std::size_t output) {
        TensorSpec& spec = outputs_[output];
        const auto& samples = shapes_of_samples_[output];
        for (std::size_t dim = 1; dim < spec.dims; ++dim)
            for (const std::vector<std::int64_t>& sample : samples)
                if (sample[dim - 1] != samples.front()[dim - 1]) spec.shape[dim] = kVarying;
        if (!spec.varies()) return;
        spec.strides = {};
        std::size_t most = 0;
        for (const std::vector<std::int64_t>& sample : samples) {
            std::vector<std::int64_t> extents;
            for (std::size_t dim = 1; dim < spec.dims; ++dim)
                if (spec.shape[dim] == kVarying) extents.push_back(sample[dim - 1]);
            const std::size_t bytes = spec.of_sample(extents).row_bytes();
            if (largest_[output].empty() || bytes > most) largest_[output] = std::move(extents);
            most = std::max(most, bytes);
        }
    }

    // The places of the outputs that the run delivers.
    std::vector<std::size_t> chosen_of(const std::vector<std::string>& names) const {
        const std::vector<std::string>& wanted = execution_.options().output_tensors;
        for (const std::string& name : wanted)
            if (std::ranges::find(names, name) == names.end()) {
                std::string known;
                for (const std::string& each : names) known += (known.empty() ? "" : ", ") + each;
                throw ConfigError(file_ + " has no output '" + name + "'", "Its outputs: " + known);
            }
        std::vector<std::size_t> chosen;
        for (std::size_t i = 0; i < names.size(); ++i)
            if (wanted.empty() || std::ranges::find(wanted, names[i]) != wanted.end()) chosen.push_back(i);
        return chosen;
    }

    // Whether the run chooses this output by name, and each text has a row for each of its tokens in it.
    bool is_of_tokens(const TensorSpec& output) const {
        return !execution_.options().output_tensors.empty() && metadata().takes_tokens() && output.dims >= 3 &&
               output.shape[1] == metadata().token_length();
    }

    TensorSpec stated(const at::Tensor& tensor, const std::string& name) const {
        const std::string what = "the output '" + name + "' of " + file_ + ", " + shape_of(tensor) + ",";
        const std::int64_t batch = input_.tensor.varies() ? 1 : network_batch();
        const bool may_be_one = batch > 1 && metadata().batch == 0 && input_.group_rows == 0;
        if (tensor.dim() == 0 || tensor.size(0) != batch)
            throw ConfigError(what + " is not a batch of " + std::to_string(batch) + " samples: expected [" +
                                  std::to_string(batch) + ", ...]",
                              "Let the model return a row for each sample" +
                                  std::string(may_be_one ? ", or give --batch 1 if it returns one sample only" : ""),
                              ErrorKind::BadInput);
        if (tensor.numel() == 0 && metadata().output_shapes.empty())
            throw ConfigError(
                what + " has no elements, and the run learns its shape from this batch of zeros",
                "If an extent depends on values, write '?' for it in output-shapes, in " + metadata().file,
                ErrorKind::BadInput);
        if (tensor.dim() > static_cast<std::int64_t>(kMaxDims))
            throw ConfigError(what + " has more than " + std::to_string(kMaxDims) + " dimensions",
                              "A slab's tensor has at most that many", ErrorKind::BadInput);
        TensorSpec spec =
            TensorSpec::contiguous(name, output_dtype(tensor, what), {tensor.sizes().data(), tensor.sizes().size()});
        TensorSpec with_strides = spec;
        std::ranges::copy(tensor.strides(), with_strides.strides.begin());
        return with_strides.dense_rows() ? with_settled_strides(with_strides) : spec;
    }

    // The tensor in its declared form, in memory of its own.
    DeviceTensor hand_out(at::Tensor tensor, const TensorSpec& spec, bool lent) const {
        check_shape(tensor, spec);
        if (lent || tensor.device().type() != execution_.device().type() || !has_strides(tensor.strides(), spec)) {
            at::Tensor packed = empty_output(spec);
            packed.copy_(tensor);
            tensor = std::move(packed);
        }
        const void* const data = tensor.const_data_ptr();
        return {.spec = spec, .data = data, .owner = std::make_shared<const at::Tensor>(std::move(tensor))};
    }

    void check_shape(const at::Tensor& tensor, const TensorSpec& spec) const {
        if (!std::ranges::equal(tensor.sizes(), std::span(spec.shape).first(spec.dims)))
            throw RunFailure({.kind = FailureCause::Kind::Model},
                             file_ + " gave the output '" + spec.name + "' of shape " + shape_of(tensor) +
                                 " where the first batch's was " + spec.describe(),
                             "Use a model whose outputs have the same shape for every input, or write '?' for what "
                             "differs in output-shapes, in " +
                                 metadata().file);
        if (output_dtype(tensor, file_) != spec.dtype)
            throw RunFailure({.kind = FailureCause::Kind::Model},
                             file_ + " gave the output '" + spec.name + "' of type " +
                                 c10::toString(tensor.scalar_type()) + " where the first batch's was " +
                                 spec.describe(),
                             "Use a model whose outputs have the same type for every input");
    }

    Execution execution_;
    std::string file_;
    std::unique_ptr<FileNetwork> network_;
    ModelInput input_;
    std::size_t network_outputs_ = 0;
    std::vector<std::size_t> chosen_;  // of the network's outputs
    std::vector<TensorSpec> outputs_;  // of those, for a full batch of the longest rows
    std::vector<bool> of_tokens_;      // of those: a row for each token
    std::vector<std::vector<std::vector<std::int64_t>>> shapes_of_samples_;  // of each output, as learned
    std::vector<std::vector<std::int64_t>> largest_;  // of each output, where samples differ: extents
};

}  // namespace

std::unique_ptr<Model> make_file_model(
    const ModelOptions& options, const std::function<std::unique_ptr<FileNetwork>(const Execution& execution)>& load) {
    return std::make_unique<FileModel>(options, load);
}

}  // namespace offramp
