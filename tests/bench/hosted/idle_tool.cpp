#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

// A program for `--processor exec:` that does nothing: it reads each request and reports it as done.
int main() {
    std::string line;
    if (!std::getline(std::cin, line)) return 1;
    std::cout << R"({"offramp": 1})" << std::endl;
    while (std::getline(std::cin, line)) {
        const auto slab = nlohmann::json::parse(line).at("slab").at("number");
        std::cout << nlohmann::json{{"slab", slab}, {"done", true}} << std::endl;
    }
    return 0;
}
