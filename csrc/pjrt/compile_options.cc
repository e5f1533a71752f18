#include "pjrt/compile_options.h"

#include <bit>
#include <stdexcept>
#include <string_view>

namespace torch_tpu::pjrt {
namespace {

// Field numbers of xla/pjrt/proto/compile_options.proto and xla/xla_data.proto.
namespace compile_field {
constexpr int kExecutableBuildOptions = 3;
constexpr int kPortable = 4;
constexpr int kEnvOptionOverrides = 7;
}  // namespace compile_field
namespace build_field {
constexpr int kDeviceOrdinal = 1;
constexpr int kNumReplicas = 4;
constexpr int kNumPartitions = 5;
constexpr int kUseSpmdPartitioning = 6;
constexpr int kDeviceAssignment = 9;
}  // namespace build_field
namespace assignment_field {
constexpr int kReplicaCount = 1;
constexpr int kComputationCount = 2;
constexpr int kComputationDevices = 3;
constexpr int kReplicaDeviceIds = 1;  // of ComputationDevice
}  // namespace assignment_field
namespace override_field {
constexpr int kString = 1;
constexpr int kBool = 2;
constexpr int kInt = 3;
constexpr int kDouble = 4;
}  // namespace override_field
namespace map_field {
constexpr int kKey = 1;
constexpr int kValue = 2;
}  // namespace map_field

// Writes protobuf's wire format. Each field is written once, in the order of the calls, so equal calls give equal
// bytes.
class ProtoWriter {
 public:
  void number(int field, int64_t value) {
    tag(field, 0);
    varint(static_cast<uint64_t>(value));
  }
  void real(int field, double value) {
    tag(field, 1);
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    for (int shift = 0; shift < 64; shift += 8) bytes_.push_back(static_cast<char>(bits >> shift));
  }
  void bytes(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_.append(value);
  }
  // Packed repeated integers.
  void numbers(int field, const std::vector<int64_t>& values) {
    ProtoWriter packed;
    for (int64_t value : values) packed.varint(static_cast<uint64_t>(value));
    bytes(field, packed.bytes_);
  }
  const std::string& result() const { return bytes_; }

 private:
  void tag(int field, int wire_type) { varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

std::string encode_assignment(const CompileOptions& options) {
  ProtoWriter out;
  out.number(assignment_field::kReplicaCount, options.num_replicas);
  out.number(assignment_field::kComputationCount, options.num_partitions);
  for (int64_t partition = 0; partition < options.num_partitions; ++partition) {
    std::vector<int64_t> ids;
    for (int64_t replica = 0; replica < options.num_replicas; ++replica) {
      ids.push_back(options.device_assignment[replica * options.num_partitions + partition]);
    }
    ProtoWriter devices;
    devices.numbers(assignment_field::kReplicaDeviceIds, ids);
    out.bytes(assignment_field::kComputationDevices, devices.result());
  }
  return out.result();
}

std::string encode_override(const CompileOptions::Override& value) {
  ProtoWriter out;
  if (const auto* text = std::get_if<std::string>(&value)) {
    out.bytes(override_field::kString, *text);
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    out.number(override_field::kBool, *flag ? 1 : 0);
  } else if (const auto* number = std::get_if<int64_t>(&value)) {
    out.number(override_field::kInt, *number);
  } else {
    out.real(override_field::kDouble, std::get<double>(value));
  }
  return out.result();
}

}  // namespace

std::string CompileOptions::serialize() const {
  if (num_replicas < 1 || num_partitions < 1) {
    throw std::invalid_argument("CompileOptions: num_replicas and num_partitions must be positive");
  }
  if (!device_assignment.empty() &&
      device_assignment.size() != static_cast<size_t>(num_replicas) * static_cast<size_t>(num_partitions)) {
    throw std::invalid_argument("CompileOptions: the device assignment must have num_replicas * num_partitions ids");
  }
  if (portable && (num_replicas != 1 || num_partitions != 1 || !device_assignment.empty())) {
    throw std::invalid_argument("CompileOptions: a portable program has one replica and no device assignment");
  }

  ProtoWriter build;
  build.number(build_field::kDeviceOrdinal, -1);  // "not set"; 0 would mean the first device
  build.number(build_field::kNumReplicas, num_replicas);
  build.number(build_field::kNumPartitions, num_partitions);
  if (use_spmd_partitioning) build.number(build_field::kUseSpmdPartitioning, 1);
  if (!device_assignment.empty()) build.bytes(build_field::kDeviceAssignment, encode_assignment(*this));

  ProtoWriter out;
  out.bytes(compile_field::kExecutableBuildOptions, build.result());
  if (portable) out.number(compile_field::kPortable, 1);
  for (const auto& [name, value] : env_overrides) {  // std::map: sorted by name
    ProtoWriter entry;
    entry.bytes(map_field::kKey, name);
    entry.bytes(map_field::kValue, encode_override(value));
    out.bytes(compile_field::kEnvOptionOverrides, entry.result());
  }
  return out.result();
}

}  // namespace torch_tpu::pjrt
