#pragma once

#include <CLI/CLI.hpp>

#include "engine/cli/session.h"

/// The subcommands, one per file. Each adds itself to `app`; its callback does the work, and throws
/// Error or sets `session.status`.
namespace dlflow {

void add_plan(CLI::App& app, Session& session);
void add_run(CLI::App& app, Session& session);
void add_status(CLI::App& app, Session& session);
void add_logs(CLI::App& app, Session& session);
void add_explain(CLI::App& app, Session& session);
void add_validate(CLI::App& app, Session& session);
void add_graph(CLI::App& app, Session& session);
void add_resubmit(CLI::App& app, Session& session);
void add_cancel(CLI::App& app, Session& session);
void add_rm(CLI::App& app, Session& session);
void add_results(CLI::App& app, Session& session);
void add_report(CLI::App& app, Session& session);
void add_sync(CLI::App& app, Session& session);
void add_shell(CLI::App& app, Session& session);
void add_pack(CLI::App& app, Session& session);
void add_unpack(CLI::App& app, Session& session);
void add_cache(CLI::App& app, Session& session);
void add_data(CLI::App& app, Session& session);
void declare_data_pack(CLI::App& data, Session& session);  // `dlflow data pack`
void add_model(CLI::App& app, Session& session);
void add_predict(CLI::App& app, Session& session);
void add_profile(CLI::App& app, Session& session);
void add_schema(CLI::App& app, Session& session);
void add_doctor(CLI::App& app, Session& session);
void add_completion(CLI::App& app, Session& session);
void add_man(CLI::App& app, Session& session);
void add_init(CLI::App& app, Session& session);
void add_help(CLI::App& app, Session& session);

}  // namespace dlflow
