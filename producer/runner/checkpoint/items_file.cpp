#include "producer/runner/checkpoint/items_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"
#include "producer/runner/sources/source_items.hpp"

namespace offramp {
namespace {

struct Header {
    std::array<char, 8> magic{'o', 'f', 'f', 'r', 'i', 't', 'e', 'm'};
    std::uint64_t version = kItemsFileVersion;

    bool operator==(const Header&) const = default;
};
static_assert(sizeof(Header) == 16 && offsetof(Header, version) == 8);
static_assert(std::endian::native == std::endian::little, "hashes are written as they are in memory");

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
    throw Error(
        ErrorKind::BadInput, path + ", which identifies the items of the checkpoint beside it, " + why,
        "Put this run's own file back, or give its items in their earlier order, new ones last. Else --overwrite "
        "keeps these results under another name and processes every item again");
}

std::size_t read_all(const UniqueFd& file, std::span<std::byte> to, const std::string& path) {
    std::size_t done = 0;
    while (done < to.size()) {
        const ssize_t got = ::read(file.get(), to.data() + done, to.size() - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            throw SystemError("reading " + path, errno, "Check the file system that holds it", ErrorKind::NoInput);
        if (got == 0) break;
        done += static_cast<std::size_t>(got);
    }
    return done;
}

// With its offset at the first hash. It has at least `items` of them.
UniqueFd open_items_file(const std::string& path, std::uint64_t items) {
    UniqueFd file = open_own_file(path, "the hashes of items");
    if (!file) refuse(path, "is missing");
    Header header{.magic = {}, .version = 0};
    if (read_all(file, std::as_writable_bytes(std::span(&header, 1)), path) < sizeof header || header != Header{})
        refuse(path, "is another file, or has another version");
    struct stat found {};
    if (::fstat(file.get(), &found) != 0)
        throw SystemError("reading " + path, errno, "Check the file system that holds it", ErrorKind::NoInput);
    const std::uint64_t hashes = (static_cast<std::uint64_t>(found.st_size) - sizeof header) / sizeof items;
    if (hashes < items)
        refuse(path, "is truncated: it has " + std::to_string(hashes) + " of " + std::to_string(items) + " items");
    return file;
}

[[noreturn]] void refuse_items_of(const ListIndex& job) {
    throw Error(ErrorKind::BadInput, job.items_file + ", which identifies the job's items, is damaged",
                "Remove it: shards then read the job's whole list of pictures");
}

std::span<const std::uint64_t> hashes_of_job(const MappedFile& file, const ListIndex& job) {
    const std::span<const std::byte> bytes = file.bytes();
    Header header{.magic = {}, .version = 0};
    if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
    if (header != Header{} || bytes.size() != sizeof header + job.items * sizeof(std::uint64_t)) refuse_items_of(job);
    return {reinterpret_cast<const std::uint64_t*>(bytes.data() + sizeof header), job.items};
}

}  // namespace

std::vector<std::uint64_t> read_items_file(const std::string& folder, const Checkpoint& checkpoint) {
    const std::string path = folder + "/" + kItemsFileName;
    const UniqueFd file = open_items_file(path, checkpoint.items());
    std::vector<std::uint64_t> hashes(checkpoint.items());
    const auto names = checkpoint.identity.facts.find(CheckpointIdentity::kNamesOfItems);
    if (read_all(file, std::as_writable_bytes(std::span(hashes)), path) < hashes.size() * sizeof hashes[0] ||
        names == checkpoint.identity.facts.end() || names->second != source_fingerprint(hashes))
        refuse(path, "was damaged, or is another run's");
    return hashes;
}

std::unique_ptr<WholeFile> new_items_file(const std::string& path, const WriteFailure& failure, bool many_may_write) {
    std::unique_ptr<WholeFile> file(many_may_write ? new WholeFile(WholeFile::among_others(path, 0644, failure))
                                                   : new WholeFile(path, 0644, failure));
    const Header header;
    file->write(std::as_bytes(std::span(&header, 1)));
    return file;
}

void write_hashes(WholeFile& file, std::span<const std::uint64_t> hashes) { file.write(std::as_bytes(hashes)); }

void copy_hashes(WholeFile& file, const ListIndex& of_job) {
    const MappedFile from(of_job.items_file);
    const std::span<const std::uint64_t> hashes = hashes_of_job(from, of_job);
    if (source_fingerprint(hashes) != source_fingerprint(of_job.items_hash)) refuse_items_of(of_job);
    write_hashes(file, hashes);
}

void require_hashes(const ListIndex& of_job, ItemRange items, const BatchSource& source) {
    const MappedFile from(of_job.items_file);
    std::span<const std::uint64_t> left = hashes_of_job(from, of_job).subspan(items.begin, items.end - items.begin);
    hash_items(source, items, [&](std::span<const std::uint64_t> some) {
        if (!std::ranges::equal(some, left.first(some.size()))) refuse_items_of(of_job);
        left = left.subspan(some.size());
    });
}

bool link_items_file(const std::string& from, const std::string& path) {
    if (::link(from.c_str(), path.c_str()) == 0) return true;
    struct stat one {};
    struct stat other {};
    return errno == EEXIST && ::stat(from.c_str(), &one) == 0 && ::lstat(path.c_str(), &other) == 0 &&
           one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

}  // namespace offramp
