// sinter device: the GPU, or the model that stands for one. sinter version: what this build is.
#include <cstdio>

#include "src/cli/commands.h"
#include "src/cli/session.h"

namespace sinter::cli {
namespace {

// A device's figures, never those of a model that stands for one.
Outcome Measure(const Session& session) {
  if (session.fell_back) return {kUnavailable, "--measure needs a GPU: " + session.no_gpu};
  std::string text;
  SINTER_CLI_TRY(Take(&text, [&] { return MeasureDevice(session.context->engine->ports()); }));
  std::printf("%s", text.c_str());
  return {};
}

}  // namespace

Outcome DeviceCommand(const Options& options) {
  Session session;
  SINTER_CLI_TRY(OpenSession(options.device, &session));
  if (options.measure) return Measure(session);
  if (options.json) {
    std::printf("%s", capi::DescribeContext(*session.context).c_str());
    return {};
  }
  const std::string text = session.context->engine->ports().model.ToText();
  if (options.model) {
    std::printf("%s", text.c_str());
    return {};
  }
  std::printf("device: %s\n", Printable(session.device).c_str());
  const std::string no_gpu = NoGpuLine(session);
  if (!no_gpu.empty()) std::printf("no GPU: %s\n", Printable(session.no_gpu).c_str());
  std::printf("cache:  %s\n\n%s", Printable(CacheFolder(session)).c_str(), text.c_str());
  return {};
}

Outcome VersionCommand(const Options& options) {
  if (!options.json) {
    std::printf("%s\n", sinter_build_info());
    return {};
  }
  const Json json = {{"version", sinter_version()}, {"build", sinter_build_info()}};
  PrintJson(json);
  return {};
}

}  // namespace sinter::cli
