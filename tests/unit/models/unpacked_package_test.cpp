#include "producer/runner/models/network_file.hpp"

#include <gtest/gtest.h>

#include <string>

namespace offramp {
namespace {

// The folders named here are removed with their contents.
TEST(UnpackedPackage, IsFoundInLibTorchsFolder) {
    const std::string front = "7f1c8a000000-7f1c8a021000 r-xp 00001000 08:01 4213                       ";
    EXPECT_EQ(unpacked_folder(front + "/tmp/SckkvS/minilm/data/aotinductor/model/ctgb.wrapper.so"), "/tmp/SckkvS");
    for (const char* other :
         {"/home/u/tmp/x/net/data/aotinductor/model/c.so", "/home/u/tmp/x/data/aotinductor/model/c.so",
          "/tmp/u/work/net/data/aotinductor/model/c.so", "/tmp/data/aotinductor/model/c.so",
          "/tmp//net/data/aotinductor/model/c.so", "/tmp/SckkvS/net/data/aotinductor/models/c.so", "/tmp/c.so",
          "/tmp/SckkvS/c.so", "/tmp/", "/usr/lib/libc.so.6", "[heap]", ""})
        EXPECT_EQ(unpacked_folder(front + other), "") << other;
    EXPECT_EQ(unpacked_folder(""), "");
}

}  // namespace
}  // namespace offramp
