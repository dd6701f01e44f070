#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "common/app/settings/run_config.hpp"
#include "common/app/settings/setting_group.hpp"
#include "common/base/error.hpp"
#include "tests/support/scratch_folder.hpp"

namespace offramp {

// Parses like a program, with its own environment and a folder for files.
class Parsing : public testing::Test {
  protected:
    Parsing() {
        ::unsetenv("OFFRAMP_CONFIG");
        for (const Setting& setting : make_settings()) ::unsetenv(setting.environment_name().c_str());
    }
    ~Parsing() override {
        for (const std::string& name : set_names_) ::unsetenv(name.c_str());
    }

    void set_environment(const std::string& name, const std::string& value) {
        ::setenv(name.c_str(), value.c_str(), 1);
        set_names_.push_back(name);
    }

    // Returns the path.
    std::string write_file(const std::string& text, const std::string& name = "run.toml") {
        const auto path = folder_ / name;
        std::ofstream(path, std::ios::binary) << text;
        return path.string();
    }

    static std::optional<RunConfig> try_parse(const std::vector<std::string>& arguments,
                                              const std::string& program = "offramp-producer") {
        std::vector<const char*> argv{program.c_str()};
        for (const std::string& argument : arguments) argv.push_back(argument.c_str());
        return parse_run_config(static_cast<int>(argv.size()), argv.data(), program);
    }

    static RunConfig parse(const std::vector<std::string>& arguments = {}) { return try_parse(arguments).value(); }

    struct Refusal {
        std::string text;
        ErrorKind kind = ErrorKind::None;
    };
    static Refusal refusal(const std::vector<std::string>& arguments, const std::string& program = "offramp-producer") {
        try {
            try_parse(arguments, program);
        } catch (const ConfigError& error) {
            return {error.what(), error.kind()};
        }
        return {"nothing was refused"};
    }

    test::ScratchFolder scratch_;
    std::filesystem::path folder_ = scratch_.path();

  private:
    std::vector<std::string> set_names_;
};

}  // namespace offramp
