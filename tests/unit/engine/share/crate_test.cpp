#include "engine/share/crate.h"

#include "tests/support/catch.h"

using namespace dlflow;

namespace {

using std::chrono::milliseconds;

/// A bundle of a workflow with parameters of each type, and files of each kind.
Bundle some_bundle() {
  Bundle bundle;
  bundle.workflow.params = {{"a b", "x y"}, {"fast", true}, {"lr", 0.5}, {"n", 3}};
  return bundle;
}

Manifest some_manifest() {
  Manifest manifest;
  manifest.dlflow = "0.1.0";
  manifest.name = "crated";
  manifest.workflow = "workflow/w.yaml";
  manifest.run = "crated-7f3a";
  manifest.files = {{"data/d", {"01", 1, false}},
                    {"run/run.json", {"02", 2, false}},
                    {"run/steps/a/metrics.jsonl", {"03", 3, false}},
                    {"run/steps/a/outputs/x.gz", {"04", 4, false}},
                    {"workflow/azAZ09-._~/=,+@()`{[:\xc3\xa4 .py", {"05", 5, true}},
                    {"workflow/m.yml", {"06", 6, false}},
                    {"workflow/w.yaml", {"07", 7, false}}};
  return manifest;
}

/// Entities, one a line.
std::string lines_of(const Json& entities) {
  std::string lines;
  for (const Json& entity : entities) lines += entity.dump() + "\n";
  return lines;
}

std::string graph_of(const Bundle& bundle, const Manifest& manifest) {
  return lines_of(crate_metadata(bundle, manifest).at("@graph"));
}

}  // namespace

TEST_CASE("the crate of a run describes the workflow, its files and what the run did", "[crate]") {
  Bundle bundle = some_bundle();
  bundle.run = {"succeeded", Time(milliseconds(1'000)), Time(milliseconds(86'400'002))};
  CHECK(crate_metadata(bundle, some_manifest()).at("@context").dump() ==
        R"(["https://w3id.org/ro/crate/1.1/context",)"
        R"({"sha256":"https://w3id.org/ro/terms/workflow-run#sha256"}])");
  CHECK(graph_of(bundle, some_manifest()) == lines_of(Json::parse(R"([
  {"@id": "ro-crate-metadata.json", "@type": "CreativeWork", "about": {"@id": "./"},
   "conformsTo": [{"@id": "https://w3id.org/ro/crate/1.1"},
   {"@id": "https://w3id.org/workflowhub/workflow-ro-crate/1.0"}]},
  {"@id": "./", "@type": "Dataset",
   "conformsTo": [{"@id": "https://w3id.org/ro/wfrun/process/0.5"},
   {"@id": "https://w3id.org/ro/wfrun/workflow/0.5"},
   {"@id": "https://w3id.org/workflowhub/workflow-ro-crate/1.0"}],
   "datePublished": "1970-01-02",
   "description": "The dlflow workflow crated with the files that it reads, and what its run crated-7f3a gave.",
   "hasPart": [{"@id": "dlflow-bundle.json"}, {"@id": "data/d"}, {"@id": "run/run.json"},
   {"@id": "run/steps/a/metrics.jsonl"}, {"@id": "run/steps/a/outputs/x.gz"},
   {"@id": "workflow/azAZ09-._~/=,+@()%60%7B%5B%3A%C3%A4%20.py"}, {"@id": "workflow/m.yml"},
   {"@id": "workflow/w.yaml"}], "license": "No licence was given; ask the author.",
   "mainEntity": {"@id": "workflow/w.yaml"}, "mentions": {"@id": "#run"}, "name": "crated"},
  {"@id": "https://w3id.org/ro/wfrun/process/0.5", "@type": "CreativeWork",
   "name": "Process Run Crate", "version": "0.5"},
  {"@id": "https://w3id.org/ro/wfrun/workflow/0.5", "@type": "CreativeWork",
   "name": "Workflow Run Crate", "version": "0.5"},
  {"@id": "https://w3id.org/workflowhub/workflow-ro-crate/1.0", "@type": "CreativeWork",
   "name": "Workflow RO-Crate", "version": "1.0"},
  {"@id": "#dlflow", "@type": "ComputerLanguage", "alternateName": "dlflow",
   "name": "dlflow workflow", "version": "0.1.0"},
  {"@id": "#param-a%20b", "@type": "FormalParameter", "additionalType": "Text", "name": "a b",
   "workExample": {"@id": "#value-a%20b"}},
  {"@id": "#param-fast", "@type": "FormalParameter", "additionalType": "Boolean",
   "name": "fast", "workExample": {"@id": "#value-fast"}},
  {"@id": "#param-lr", "@type": "FormalParameter", "additionalType": "Float", "name": "lr",
   "workExample": {"@id": "#value-lr"}},
  {"@id": "#param-n", "@type": "FormalParameter", "additionalType": "Integer", "name": "n",
   "workExample": {"@id": "#value-n"}},
  {"@id": "dlflow-bundle.json", "@type": "File", "encodingFormat": "application/json",
   "name": "The bundle's files with their checksums"},
  {"@id": "data/d", "@type": "File", "contentSize": "1",
   "encodingFormat": "application/octet-stream", "name": "data/d", "sha256": "01"},
  {"@id": "run/run.json", "@type": "File", "contentSize": "2",
   "encodingFormat": "application/json", "name": "run/run.json", "sha256": "02"},
  {"@id": "run/steps/a/metrics.jsonl", "@type": "File", "contentSize": "3",
   "encodingFormat": "application/jsonl", "name": "run/steps/a/metrics.jsonl", "sha256": "03"},
  {"@id": "run/steps/a/outputs/x.gz", "@type": "File", "contentSize": "4",
   "encodingFormat": "application/gzip", "name": "run/steps/a/outputs/x.gz", "sha256": "04"},
  {"@id": "workflow/azAZ09-._~/=,+@()%60%7B%5B%3A%C3%A4%20.py", "@type": "File",
   "contentSize": "5", "encodingFormat": "text/x-python",
   "name": "workflow/azAZ09-._~/=,+@()`{[:\u00e4 .py", "sha256": "05"},
  {"@id": "workflow/m.yml", "@type": "File", "contentSize": "6",
   "encodingFormat": "application/yaml", "name": "workflow/m.yml", "sha256": "06"},
  {"@id": "workflow/w.yaml", "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
   "conformsTo": {"@id": "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"},
   "contentSize": "7", "encodingFormat": "application/yaml", "input": [{"@id": "#param-a%20b"},
   {"@id": "#param-fast"}, {"@id": "#param-lr"}, {"@id": "#param-n"}], "name": "crated",
   "programmingLanguage": {"@id": "#dlflow"}, "sha256": "07", "version": "07"},
  {"@id": "#value-a%20b", "@type": "PropertyValue", "exampleOfWork": {"@id": "#param-a%20b"},
   "name": "a b", "value": "x y"},
  {"@id": "#value-fast", "@type": "PropertyValue", "exampleOfWork": {"@id": "#param-fast"},
   "name": "fast", "value": "true"},
  {"@id": "#value-lr", "@type": "PropertyValue", "exampleOfWork": {"@id": "#param-lr"},
   "name": "lr", "value": "0.5"},
  {"@id": "#value-n", "@type": "PropertyValue", "exampleOfWork": {"@id": "#param-n"},
   "name": "n", "value": "3"},
  {"@id": "#run", "@type": "CreateAction",
   "actionStatus": "http://schema.org/CompletedActionStatus",
   "description": "The run crated-7f3a of crated: succeeded",
   "endTime": "1970-01-02T00:00:00.002+00:00", "instrument": {"@id": "workflow/w.yaml"},
   "name": "crated-7f3a", "object": [{"@id": "#value-a%20b"}, {"@id": "#value-fast"},
   {"@id": "#value-lr"}, {"@id": "#value-n"}], "result": [{"@id": "run/run.json"},
   {"@id": "run/steps/a/metrics.jsonl"}, {"@id": "run/steps/a/outputs/x.gz"}],
   "startTime": "1970-01-01T00:00:01.000+00:00"}])")));
}

TEST_CASE("the crate of a workflow alone says nothing of a run", "[crate]") {
  Bundle bundle = some_bundle();
  bundle.workflow.params = {{"n", 3}};
  Manifest manifest = some_manifest();
  manifest.run = "";
  manifest.files = {{"workflow/w.yaml", {"07", 7, false}}};
  CHECK(graph_of(bundle, manifest) == lines_of(Json::parse(R"([
  {"@id": "ro-crate-metadata.json", "@type": "CreativeWork", "about": {"@id": "./"},
   "conformsTo": [{"@id": "https://w3id.org/ro/crate/1.1"},
   {"@id": "https://w3id.org/workflowhub/workflow-ro-crate/1.0"}]},
  {"@id": "./", "@type": "Dataset",
   "conformsTo": {"@id": "https://w3id.org/workflowhub/workflow-ro-crate/1.0"},
   "datePublished": "1980-01-01",
   "description": "The dlflow workflow crated with the files that it reads.",
   "hasPart": [{"@id": "dlflow-bundle.json"}, {"@id": "workflow/w.yaml"}],
   "license": "No licence was given; ask the author.", "mainEntity": {"@id": "workflow/w.yaml"},
   "name": "crated"},
  {"@id": "https://w3id.org/workflowhub/workflow-ro-crate/1.0", "@type": "CreativeWork",
   "name": "Workflow RO-Crate", "version": "1.0"},
  {"@id": "#dlflow", "@type": "ComputerLanguage", "alternateName": "dlflow",
   "name": "dlflow workflow", "version": "0.1.0"},
  {"@id": "#param-n", "@type": "FormalParameter", "additionalType": "Integer", "name": "n"},
  {"@id": "dlflow-bundle.json", "@type": "File", "encodingFormat": "application/json",
   "name": "The bundle's files with their checksums"},
  {"@id": "workflow/w.yaml", "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
   "conformsTo": {"@id": "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"},
   "contentSize": "7", "encodingFormat": "application/yaml", "input": {"@id": "#param-n"},
   "name": "crated", "programmingLanguage": {"@id": "#dlflow"}, "sha256": "07", "version": "07"}])")));
  bundle.workflow.params = Json::object();
  manifest.files["workflow/w.yaml"].sha256 = "0123456789abcdef";
  const std::string without = graph_of(bundle, manifest);
  CHECK(without.find("\"input\"") == std::string::npos);
  CHECK(without.find("\"version\":\"0123456789ab\"") != std::string::npos);
}

TEST_CASE("the crate of a run that failed says so", "[crate]") {
  Bundle bundle;
  bundle.run = {"failed", Time(milliseconds(0)), Time(milliseconds(5))};
  Manifest manifest = some_manifest();
  manifest.files = {{"workflow/w.yaml", {"07", 7, false}}};
  const Json graph = crate_metadata(bundle, manifest).at("@graph");
  CHECK(graph.back() == Json::parse(R"({"@id": "#run", "@type": "CreateAction",
      "actionStatus": "http://schema.org/FailedActionStatus",
      "description": "The run crated-7f3a of crated: failed",
      "endTime": "1970-01-01T00:00:00.005+00:00", "instrument": {"@id": "workflow/w.yaml"},
      "name": "crated-7f3a", "startTime": "1970-01-01T00:00:00.000+00:00"})"));
}
