#include "runtime/session.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "pjrt/compile_options.h"
#include "pjrt/discovery.h"
#include "pjrt/executable.h"
#include "pjrt/plugin_memory.h"
#include "runtime/log.h"
#include "runtime/memory_maps.h"
#include "runtime/metrics.h"

namespace torch_tpu::runtime {
namespace {

using clock = std::chrono::steady_clock;

PluginPaths& plugin_paths() {
  static PluginPaths* const paths = new PluginPaths;
  return *paths;
}

std::atomic<Session*> current{nullptr};
std::atomic<bool> forked{false};  // in a child of fork(), where `current` was taken away
std::mutex start_mutex;

// Instead of comparing process ids in each call: that is a system call, and a twentieth of an add.
void take_from_child() {
  if (current.exchange(nullptr)) forked.store(true);
}

// Instruction sets that a compiled CPU program may use. Part of the disk key: a home folder moves between machines.
std::string cpu_features() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpuinfo, line))
    if (line.starts_with("flags") || line.starts_with("Features")) return line.substr(line.find(':') + 1);
  return "unknown";
}

// Plugins of one platform name their version poorly ("cpu"), so the file itself counts.
std::string file_identity(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return path;
  return std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec);
}

constexpr const char* kXnnpackOption = "xla_cpu_use_xnnpack";
std::atomic<bool> has_xnnpack_option{true};

// The option that XLA's CPU plugins know for virtual devices.
int64_t virtual_devices() {
  const char* text = std::getenv("TORCH_TPU_CPU_DEVICES");
  if (!text || !*text) return 0;
  char* end = nullptr;
  const int64_t n = std::strtoll(text, &end, 10);
  if (*end != '\0' || n < 1 || n > kMaxDevices)
    throw std::runtime_error("TORCH_TPU_CPU_DEVICES=" + std::string(text) + " is not a number from 1 to " +
                             std::to_string(kMaxDevices));
  return n;
}

}  // namespace

void set_plugin_paths(PluginPaths paths) { plugin_paths() = std::move(paths); }

bool Session::started() { return current.load(std::memory_order_acquire) != nullptr || in_bad_fork(); }

bool Session::in_bad_fork() { return forked.load(); }

Session& Session::get() {
  Session* session = current.load(std::memory_order_acquire);
  if (session) [[likely]]
    return *session;
  if (in_bad_fork())
    throw std::runtime_error(
        "Cannot re-initialize the TPU backend in a forked subprocess. To use it with multiprocessing, you must use the "
        "'spawn' start method (torch.multiprocessing.set_start_method('spawn'))");
  std::lock_guard lock(start_mutex);
  session = current.load(std::memory_order_acquire);
  if (!session) {
    static const int registered = ::pthread_atfork(nullptr, nullptr, take_from_child);
    if (registered != 0) throw std::runtime_error("torch_tpu: pthread_atfork failed");
    session = new Session;  // never destroyed: buffers may outlive static destruction
    current.store(session, std::memory_order_release);
  }
  return *session;
}

int Session::device_count() noexcept {
  try {
    if (started()) return get().num_devices();
    const auto choice = pjrt::choose_plugin(plugin_paths().xla_cpu, plugin_paths().libtpu);
    // A CPU plugin has as many devices as it is asked for; others must be asked.
    if (choice.path == plugin_paths().xla_cpu) return static_cast<int>(std::max<int64_t>(1, virtual_devices()));
    return get().num_devices();
  } catch (const std::exception& e) {
    log("session", LogLevel::kWarn, e.what());
    return 0;
  }
}

Session::Session() {
  const auto choice = pjrt::choose_plugin(plugin_paths().xla_cpu, plugin_paths().libtpu);
  plugin_path_ = choice.path;
  plugin_reason_ = choice.reason;
  if (!choice.warning.empty()) log("session", LogLevel::kWarn, choice.warning);
  auto plugin = pjrt::Plugin::load(choice.path);
  pjrt::NamedValues options;
  // XLA's CPU plugins make several devices unless told otherwise; other plugins do not know the option.
  const int64_t wanted = virtual_devices();
  if (wanted > 0 || choice.path == plugin_paths().xla_cpu) options["cpu_device_count"] = std::max<int64_t>(wanted, 1);
  try {
    client_ = pjrt::Client::create(plugin, options);
  } catch (const pjrt::Error& e) {
    throw pjrt::Error(e.code(),
                      std::string(e.what()) + ". The plugin: " + choice.reason +
                          (choice.is_named ? ", which importing JAX sets too; without it the choice is by the "
                                             "hardware that is there"
                                           : ""));
  }
  target_.platform =
      client_->platform_name() == "tpu" ? lowering::Target::Platform::kTpu : lowering::Target::Platform::kCpu;
  const bool keeps_blocks = target_.is_cpu() && pjrt::keep_blocks(*plugin);

  fingerprint_ = "torch_tpu program 1\nplatform " + client_->platform_name() + " " + client_->platform_version() +
                 "\nplugin " + file_identity(choice.path) + "\npjrt " + plugin->api_version() + " " +
                 pjrt::to_string(plugin->attributes()) + "\ndevice " +
                 std::string(client_->addressable_devices()[0].kind()) + "\n";
  if (target_.is_cpu()) fingerprint_ += "cpu" + cpu_features() + "\n";
  disk_cache_ = DiskCache::from_environment();
  log("session", LogLevel::kInfo,
      "plugin " + plugin_path_ + " (" + plugin_reason_ + "), " + std::to_string(num_devices()) + " device(s), " +
          client_->platform_version() + (keeps_blocks ? ", its memory blocks are kept" : ""));
}

const pjrt::Device& Session::device(int index) const {
  const auto& devices = client_->addressable_devices();
  if (index < 0 || index >= static_cast<int>(devices.size()))
    throw std::runtime_error("tpu:" + std::to_string(index) + " does not exist: there are " +
                             std::to_string(devices.size()) +
                             " devices (tpu:0 to tpu:" + std::to_string(devices.size() - 1) + ")");
  return devices[static_cast<size_t>(index)];
}

int64_t Session::total_memory(int index) const {
  if (auto stats = device(index).memory_stats(); stats && stats->bytes_limit) return *stats->bytes_limit;
  struct sysinfo info;
  if (::sysinfo(&info) != 0) return 0;
  return static_cast<int64_t>(info.totalram) * info.mem_unit;
}

std::string Session::compile_options(const lowering::Target& target, bool allow_excess_precision) {
  pjrt::CompileOptions options;
  options.portable = true;
  // Flags go with the program: an unknown one in XLA_FLAGS would end the process.
  options.env_overrides["xla_allow_excess_precision"] = allow_excess_precision;
  if (target.is_cpu()) {
    // XLA's CPU backend drops NaN in max and min unless told not to.
    options.env_overrides["xla_cpu_enable_fast_min_max"] = false;
    // Lowerings cut reductions themselves (stablehlo/reduce.cc): this pass makes them up to ten times as slow.
    options.env_overrides["xla_disable_hlo_passes"] = std::string("tree_reduction_rewriter");
    // XNNPACK packs the weights of a product once for each address: a weight that was updated in place (donated), or
    // another array at an address that was freed, would be read as it was before.
    if (has_xnnpack_option) options.env_overrides[kXnnpackOption] = false;
  }
  return options.serialize();
}

CompiledProgram Session::load(const std::string& key) {
  if (!disk_cache_) return {};
  const auto start = clock::now();
  const auto payload = disk_cache_->read(key);
  if (!payload) return {};
  try {
    auto executable = client_->deserialize(*payload);
    ++metrics().cache_hits_disk;
    metrics().load_nanoseconds += (clock::now() - start).count();
    return {std::move(executable), static_cast<int64_t>(payload->size())};
  } catch (const pjrt::Error& e) {
    ++metrics().disk_errors;
    log("cache", LogLevel::kWarn, std::string("dropped an entry that the plugin refused: ") + e.what());
    disk_cache_->remove(key);
    return {};
  }
}

CompiledProgram Session::compile(const std::string& module_text, bool allow_excess_precision) {
  CompiledProgram made = load_or_compile(module_text, allow_excess_precision);
  if (target_.is_cpu()) stay_below_map_limit(made.bytes);
  return made;
}

CompiledProgram Session::load_or_compile(const std::string& module_text, bool allow_excess_precision) {
  const std::string options = compile_options(target_, allow_excess_precision);
  const std::string key = fingerprint_ + "options " + options + "\n" + module_text;
  if (CompiledProgram found = load(key); found.executable) return found;
  const auto lock = disk_cache_ ? disk_cache_->lock(key) : nullptr;
  if (lock)
    if (CompiledProgram found = load(key); found.executable) return found;  // somebody made it meanwhile
  if (log_enabled("compile", LogLevel::kDebug)) log("compile", LogLevel::kDebug, module_text);
  const auto start = clock::now();
  CompiledProgram made;
  try {
    made.executable = client_->compile(module_text, options);
  } catch (const pjrt::Error& e) {
    // Plugins that do not have XNNPACK, or no longer, refuse to be told not to use it.
    if (std::string_view(e.what()).find(kXnnpackOption) == std::string_view::npos) throw;
    if (!has_xnnpack_option.exchange(false)) throw;
    return load_or_compile(module_text, allow_excess_precision);
  }
  metrics().compile_nanoseconds += (clock::now() - start).count();
  ++metrics().compiles;
  if (disk_cache_) {
    const std::string payload = made.executable->serialize();
    made.bytes = static_cast<int64_t>(payload.size());
    disk_cache_->write(key, payload);
  } else {
    made.bytes = made.executable->compiled_memory_stats().value_or(pjrt::CompiledMemoryStats{}).generated_code;
  }
  return made;
}

}  // namespace torch_tpu::runtime
