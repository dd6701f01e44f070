#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <exception>
#include <new>

#include "common/base/error.hpp"
#include "producer/runner/models/file_model.hpp"

// Loads TorchScript files, for older models.
namespace offramp {
namespace {

std::string first_sentence(const std::string& text) {
    std::string sentence = first_line(text);
    sentence.resize(std::min(sentence.find(". "), sentence.size()));
    while (sentence.ends_with('.')) sentence.pop_back();
    return sentence;
}

// The tensors of a result, in order, each named by its place: "out", "1", "features.0".
void collect(const c10::IValue& value, const std::string& name, const std::string& file,
             std::vector<FileNetwork::Output>& outputs) {
    const auto below = [&name](const std::string& part) { return name.empty() ? part : name + "." + part; };
    if (value.isTensor()) {
        outputs.push_back({name.empty() ? "output" : name, value.toTensor()});
    } else if (value.isTuple()) {
        const auto tuple = value.toTuple();
        const auto schema = tuple->type()->schema();
        for (std::size_t i = 0; i < tuple->elements().size(); ++i)
            collect(tuple->elements()[i], below(schema ? schema->arguments().at(i).name() : std::to_string(i)), file,
                    outputs);
    } else if (value.isList()) {
        const auto list = value.toListRef();
        for (std::size_t i = 0; i < list.size(); ++i) collect(list[i], below(std::to_string(i)), file, outputs);
    } else if (value.isGenericDict()) {
        for (const auto& entry : value.toGenericDict()) {
            const c10::IValue& key = entry.key();
            collect(entry.value(), below(key.isString() ? key.toStringRef() : std::to_string(outputs.size())), file,
                    outputs);
        }
    } else if (!value.isNone()) {
        throw ConfigError("the model '" + file + "' gives a value that is not a tensor, of type " + value.tagKind(),
                          "A model's outputs are tensors, alone or in tuples, lists and dictionaries",
                          ErrorKind::BadInput);
    }
}

class ScriptNetwork final : public FileNetwork {
  public:
    ScriptNetwork(const Execution& execution) : file_(execution.options().name), module_(read(execution)) {
        module_.eval();
        const auto forward = module_.find_method("forward");
        if (!forward)
            throw ConfigError("the model '" + file_ + "' has no forward()",
                              "Save a module whose forward() takes the input and gives the outputs",
                              ErrorKind::BadInput);
        const auto& arguments = forward->function().getSchema().arguments();
        for (std::size_t i = 1; i < arguments.size(); ++i) {  // the first is the module itself
            inputs_.names.push_back(arguments[i].name());
            if (!arguments[i].default_value()) inputs_.needed = i;
        }
        for (const at::Tensor& parameter : module_.parameters())
            parameters_ += static_cast<std::uint64_t>(parameter.numel());
    }

    std::string description() const override { return "TorchScript, " + std::to_string(parameters_) + " parameters"; }
    std::string warning() const override {
        return "TorchScript is deprecated in PyTorch, and slower than a compiled model: ./launch/offramp export makes "
               "a .pt2 of the same network";
    }
    std::uint64_t parameters() const override { return parameters_; }

    std::optional<NetworkInputs> inputs() const override { return inputs_; }

    std::vector<Output> run(std::span<const at::Tensor> inputs) override {
        std::vector<Output> outputs;
        collect(module_.forward({inputs.begin(), inputs.end()}), "", file_, outputs);
        return outputs;
    }

  private:
    static torch::jit::Module read(const Execution& execution) {
        const std::string& file = execution.options().name;
        try {
            return torch::jit::load(file, execution.device());
        } catch (const c10::OutOfMemoryError&) {
            throw;
        } catch (const std::bad_alloc&) {
            throw;
        } catch (const c10::Error& error) {
            refuse(execution, error.what_without_backtrace());
        } catch (const std::exception& error) {  // LibTorch throws it for a missing operator, among others
            refuse(execution, error.what());
        }
    }

    [[noreturn]] static void refuse(const Execution& execution, const std::string& reason) {
        execution.require_device(reason);
        const std::string& file = execution.options().name;
        throw ConfigError(
            "--model '" + file + "' is not TorchScript that this LibTorch reads: " + first_sentence(reason),
            "Compile what torch.save wrote. For a whole network, write net.py with `import torch` and `def make(): "
            "return torch.load('" +
                file +
                "', weights_only=False)`, then run ./launch/offramp export net.py:make --output compiled.pt2. For "
                "weights alone, run ./launch/offramp export FILE.py:FUNCTION --weights " +
                file + ", with the function that makes their network",
            ErrorKind::BadInput);
    }

    std::string file_;
    torch::jit::Module module_;
    NetworkInputs inputs_;
    std::uint64_t parameters_ = 0;
};

}  // namespace

std::unique_ptr<Model> make_pt(const ModelOptions& options) {
    return make_file_model(options,
                           [](const Execution& execution) { return std::make_unique<ScriptNetwork>(execution); });
}

}  // namespace offramp
