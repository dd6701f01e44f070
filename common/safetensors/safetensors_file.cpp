#include "common/safetensors/safetensors_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"
#include "common/json/json_text.hpp"

namespace offramp {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kZip = "PK\x03\x04";
constexpr std::size_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

// The bytes of an element by the format's name; 0 for an unknown name.
std::size_t element_bytes(std::string_view dtype) {
    static constexpr std::pair<std::string_view, std::size_t> kKnown[] = {
        {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
        {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"F64", 8},     {"I64", 8}, {"U64", 8}};
    for (const auto& [name, bytes] : kKnown)
        if (name == dtype) return bytes;
    return 0;
}

// The subject of an error.
struct Subject {
    const std::string& path;
    const std::string& what;
    const std::string& hint;
};

[[noreturn]] void refuse(const Subject& file, const std::string& found) {
    throw ConfigError(file.what + " '" + file.path + "' cannot be read as a .safetensors file: " + found, file.hint,
                      ErrorKind::BadInput);
}

[[noreturn]] void refuse(const Subject& file, const std::string& tensor, const std::string& found) {
    refuse(file, "tensor '" + tensor + "' " + found);
}

Json parse_header(const Subject& file, std::span<const std::byte> header) {
    std::set<std::string> names;
    std::string repeated;
    const Json::parser_callback_t note_repeats = [&](int depth, Json::parse_event_t event, Json& parsed) {
        if (depth == 1 && event == Json::parse_event_t::key && !names.insert(parsed.get<std::string>()).second)
            repeated = parsed.get<std::string>();
        return true;
    };
    try {
        const char* text = reinterpret_cast<const char*>(header.data());
        Json parsed = parse_json({text, header.size()}, note_repeats);
        if (!parsed.is_object()) refuse(file, "the header is not a JSON object");
        if (!repeated.empty()) refuse(file, repeated, "is named twice in the header");
        return parsed;
    } catch (const Json::exception& error) {
        refuse(file, std::string("the header is not JSON: ") + error.what());
    }
}

// The whole numbers of a JSON list. Each must be a valid offset.
std::vector<std::uint64_t> whole_numbers(const Subject& file, const std::string& tensor, const Json& entry,
                                         const char* field) {
    const auto found = entry.find(field);
    if (found == entry.end() || !found->is_array()) refuse(file, tensor, std::string("has no list '") + field + "'");
    std::vector<std::uint64_t> numbers;
    for (const Json& number : *found) {
        if (!number.is_number_unsigned() || number.get<std::uint64_t>() > std::uint64_t{1} << 62)
            refuse(
                file, tensor,
                std::string("has '") + field + "' " + json_text(*found) + ": not all are whole numbers from 0 to 2^62");
        numbers.push_back(number.get<std::uint64_t>());
    }
    return numbers;
}

StoredTensor read_entry(const Subject& file, const std::string& name, const Json& entry,
                        std::span<const std::byte> data) {
    if (!entry.is_object()) refuse(file, name, "has no description");
    const auto dtype = entry.find("dtype");
    if (dtype == entry.end() || !dtype->is_string()) refuse(file, name, "has no 'dtype'");
    StoredTensor tensor{.dtype = dtype->get<std::string>(), .shape = {}, .bytes = {}};
    std::uint64_t bytes = element_bytes(tensor.dtype);
    if (bytes == 0) refuse(file, name, "has the unknown dtype '" + tensor.dtype + "'");
    for (const std::uint64_t size : whole_numbers(file, name, entry, "shape")) {
        if (__builtin_mul_overflow(bytes, size, &bytes))
            refuse(file, name, "has a shape beyond any memory: " + json_text(entry["shape"]));
        tensor.shape.push_back(static_cast<std::int64_t>(size));
    }
    const std::vector<std::uint64_t> offsets = whole_numbers(file, name, entry, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data.size())
        refuse(file, name,
               "has data_offsets " + json_text(entry["data_offsets"]) + " but the file holds " +
                   std::to_string(data.size()) + " bytes of tensors");
    tensor.bytes = data.subspan(offsets[0], offsets[1] - offsets[0]);
    if (tensor.bytes.size() != bytes)
        refuse(file, name,
               "is " + describe(tensor) + ", which takes " + std::to_string(bytes) + " bytes, but its data_offsets " +
                   json_text(entry["data_offsets"]) + " span " + std::to_string(tensor.bytes.size()));
    return tensor;
}

void read_metadata(const Subject& file, const Json& entry, std::map<std::string, std::string, std::less<>>& metadata) {
    if (!entry.is_object()) refuse(file, "its __metadata__ is not an object");
    for (const auto& [name, text] : entry.items()) {
        if (!text.is_string()) refuse(file, "its __metadata__ '" + name + "' is not text");
        metadata.emplace(name, text.get<std::string>());
    }
}

}  // namespace

std::string describe(const StoredTensor& tensor) {
    std::string text = tensor.dtype + " [";
    for (std::size_t d = 0; d < tensor.shape.size(); ++d)
        text += (d == 0 ? "" : ", ") + std::to_string(tensor.shape[d]);
    return text + "]";
}

SafetensorsFile::SafetensorsFile(const std::string& path, SafetensorsWords words)
    : path_(path), words_(std::move(words)) {
    map_file();
    try {
        read_header();
        check_coverage();
    } catch (...) {
        ::munmap(const_cast<std::byte*>(file_.data()), file_.size());
        throw;
    }
}

SafetensorsFile::~SafetensorsFile() { ::munmap(const_cast<std::byte*>(file_.data()), file_.size()); }

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
}

void SafetensorsFile::map_file() {
    const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0)
        throw SystemError("opening " + words_.what + " '" + path_ + "'", errno, "Give a readable .safetensors file",
                          ErrorKind::BadInput);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) throw SystemError("fstat of " + words_.what + " '" + path_ + "'", errno);
    if (!S_ISREG(status.st_mode)) refuse(Subject{path_, words_.what, words_.hint}, "it is not a regular file");
    const auto bytes = static_cast<std::size_t>(status.st_size);
    if (bytes <= kLengthBytes)
        refuse(Subject{path_, words_.what, words_.hint}, "it has only " + std::to_string(bytes) + " bytes");
    void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (mapped == MAP_FAILED)
        throw SystemError("map " + words_.what + " '" + path_ + "', " + std::to_string(bytes) + " bytes", errno);
    file_ = {static_cast<const std::byte*>(mapped), bytes};
}

void SafetensorsFile::read_header() {
    if (std::memcmp(file_.data(), kZip.data(), kZip.size()) == 0)
        refuse(Subject{path_, words_.what, words_.hint_of_zip.empty() ? words_.hint : words_.hint_of_zip},
               "it is a ZIP archive, as torch.save writes it (.pth, .pt, .bin)");
    std::uint64_t length = 0;  // x86-64 and arm64 Linux are little-endian, as the format
    std::memcpy(&length, file_.data(), kLengthBytes);
    if (length > kMaxHeaderBytes || length > file_.size() - kLengthBytes)
        refuse(Subject{path_, words_.what, words_.hint},
               "its header claims " + std::to_string(length) + " bytes, the file has " + std::to_string(file_.size()));
    data_ = file_.subspan(kLengthBytes + length);
    const Subject subject{path_, words_.what, words_.hint};
    const Json header = parse_header(subject, file_.subspan(kLengthBytes, length));
    for (const auto& [name, entry] : header.items()) {
        if (name != kMetadata)
            tensors_.emplace(name, read_entry(subject, name, entry, data_));
        else
            read_metadata(subject, entry, metadata_);
    }
}

// The format allows neither overlaps nor holes: either means that offsets or bytes are wrong.
void SafetensorsFile::check_coverage() const {
    std::vector<std::pair<const std::byte*, const std::string*>> by_position;
    for (const auto& [name, tensor] : tensors_)
        if (!tensor.bytes.empty()) by_position.emplace_back(tensor.bytes.data(), &name);
    std::ranges::sort(by_position, {}, [](const auto& entry) { return entry.first; });
    const std::byte* end = data_.data();
    for (const auto& [begin, name] : by_position) {
        if (begin < end) refuse(Subject{path_, words_.what, words_.hint}, *name, "overlaps the tensor before it");
        if (begin > end)
            refuse(Subject{path_, words_.what, words_.hint}, *name,
                   "leaves " + std::to_string(begin - end) + " unused bytes before it");
        end = begin + tensors_.at(*name).bytes.size();
    }
    const std::byte* const file_end = data_.data() + data_.size();
    if (end != file_end)
        refuse(Subject{path_, words_.what, words_.hint},
               std::to_string(file_end - end) + " bytes at its end belong to no tensor");
}

std::string safetensors_header(std::span<const TensorEntry> tensors,
                               const std::map<std::string, std::string>& metadata) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    std::uint64_t end = 0;
    for (const TensorEntry& tensor : tensors) {
        header[tensor.name] = {
            {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {end, end + tensor.bytes}}};
        end += tensor.bytes;
    }
    std::string text = json_text(header);
    std::uint64_t length = text.size();
    const std::size_t over = (sizeof length + length) % kSafetensorsAlignment;
    text.append(over == 0 ? 0 : kSafetensorsAlignment - over, ' ');
    length = text.size();
    std::string front(sizeof length, '\0');
    std::memcpy(front.data(), &length, sizeof length);  // x86-64 and arm64 Linux are little-endian, as the format
    return front + text;
}

}  // namespace offramp
