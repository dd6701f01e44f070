// A custom program, for tests of `--processor exec:` (launch/guide/processors.md); its results equal own_processor.c's.

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using nlohmann::json;

void say(const json& answer) { std::cout << answer.dump() << '\n'; }

unsigned long sum_of(std::ifstream& memory, std::size_t offset, std::size_t bytes) {
    std::string row(bytes, '\0');
    memory.seekg(static_cast<std::streamoff>(offset));
    if (!memory.read(row.data(), static_cast<std::streamsize>(bytes))) std::exit(3);
    unsigned long sum = 0;
    for (const char byte : row) sum += static_cast<unsigned char>(byte);
    return sum;
}

void process(const json& slab) {
    const json& tensor = slab.at("tensors").at(0);
    const auto rows = tensor.at("shape").at(0).get<std::size_t>();
    std::ifstream memory(tensor.at("path").get<std::string>(), std::ios::binary);
    for (const json& sample : slab.at("samples")) {
        const auto row = sample.at("row").get<std::size_t>();
        std::size_t bytes = tensor.at("bytes").get<std::size_t>() / rows;
        std::size_t offset = tensor.at("offset").get<std::size_t>() + row * bytes;
        if (tensor.contains("rows")) {
            bytes = tensor.at("rows").at(row).at("bytes").get<std::size_t>();
            offset = tensor.at("rows").at(row).at("offset").get<std::size_t>();
        }
        const unsigned long sum = sum_of(memory, offset, bytes);
        say({{"progress", true}});
        say({{"slab", slab.at("number")},
             {"file", {{"sample", sample.at("sample")}, {"ending", ".sum"}, {"text", std::to_string(sum) + "\n"}}}});
        say({{"slab", slab.at("number")}, {"record", {{"sample", sample.at("sample")}, {"fields", {{"sum", sum}}}}}});
    }
    say({{"slab", slab.at("number")}, {"done", true}});
}

}  // namespace

int main() {
    std::string line;
    if (!std::getline(std::cin, line)) return 1;
    say({{"offramp", 1}, {"takes_variable", true}});
    std::cout.flush();
    while (std::getline(std::cin, line)) {
        process(json::parse(line).at("slab"));
        std::cout.flush();
    }
    return 0;
}
