//! What `docs/deploy/` shows can be used as it stands: manifests keep to their schema, what they
//! name exists, the files that they carry are read, and scripts pass a checker where one is
//! installed.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use msccl_compiler::compile;
use msccl_compiler::evaluate::{Launch, NoFiles};
use msccl_environment::variable;
use msccl_ir::Target;
use msccl_runtime::Tuning;
use msccl_syntax::SourceMap;
use msccl_verify::verify;
use serde::Deserialize;
use serde_json::Value;

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/deploy")
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(deploy().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|it| it == extension)).collect();
    paths.sort();
    paths
}

/// The documents of all manifests, each with its file's name.
fn manifests() -> Vec<(String, Value)> {
    let mut manifests = Vec::new();
    for path in files("kubernetes", "yaml") {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        for document in serde_yaml_ng::Deserializer::from_str(&text) {
            manifests.push((name.clone(), Value::deserialize(document).unwrap()));
        }
    }
    assert!(manifests.len() >= 6);
    manifests
}

fn schema() -> jsonschema::Validator {
    let text = fs::read_to_string(deploy().join("kubernetes/schema.json")).unwrap();
    let schema = serde_json::from_str(&text).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
}

/// All objects under `value` that hang on a key of that name, or stand in its list.
fn under<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                match inner {
                    Value::Array(items) if name == key => found.extend(items),
                    _ if name == key => found.push(inner),
                    _ => {}
                }
                under(inner, key, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| under(item, key, found)),
        _ => {}
    }
}

fn all<'a>(value: &'a Value, key: &str) -> Vec<&'a Value> {
    let mut found = Vec::new();
    under(value, key, &mut found);
    found
}

fn skip(why: &str) {
    // Written past the test harness, which keeps back what tests print.
    std::io::stderr().write_all(format!("SKIPPED: {why}\n").as_bytes()).unwrap();
}

#[test]
fn manifests_keep_to_the_schema() {
    let schema = schema();
    for (file, manifest) in manifests() {
        let errors: Vec<_> = schema
            .iter_errors(&manifest)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{file}: {errors:#?}");
    }
}

#[test]
fn the_schema_refuses_what_is_misspelt() {
    let schema = schema();
    let job = manifests().into_iter().find(|(file, _)| file == "job.yaml").unwrap().1;
    let container = "/spec/template/spec/containers/0";
    let misspell = |place: &str, key: &str, value: Value| {
        let mut job = job.clone();
        let place = job.pointer_mut(place).unwrap().as_object_mut().unwrap();
        place.insert(key.to_owned(), value);
        assert!(!schema.is_valid(&job), "{key}");
    };
    assert!(schema.is_valid(&job));
    misspell("", "kind", "Jobs".into());
    misspell("/spec", "backofLimit", 0.into());
    misspell("/spec/template/spec", "restartPolicy", "Always".into());
    misspell(container, "image", "Not An Image".into());
    misspell(&format!("{container}/resources/limits"), "nvidia.com/gpus", 8.into());
    misspell(&format!("{container}/env/0"), "value", 1.into());
}

#[test]
fn what_manifests_name_exists() {
    let variables: BTreeSet<_> = variable::ALL.iter().map(|variable| variable.name).collect();
    let configuration: BTreeSet<String> = manifests()
        .iter()
        .filter(|(_, manifest)| manifest["kind"] == "ConfigMap")
        .map(|(_, manifest)| manifest["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    for (file, manifest) in manifests() {
        for variable in all(&manifest, "env") {
            let name = variable["name"].as_str().unwrap();
            let ours = name.starts_with("MSCCL_") || name.starts_with("NCCL_");
            assert!(!ours || variables.contains(name), "{file}: there is no variable {name}");
        }
        for map in all(&manifest, "configMap") {
            let name = map["name"].as_str().unwrap();
            assert!(configuration.contains(name), "{file}: there is no ConfigMap {name}");
        }
        for pod in
            all(&manifest, "spec").into_iter().filter(|spec| spec.get("containers").is_some())
        {
            let volumes = |key| all(pod, key).into_iter().map(|it| it["name"].as_str().unwrap());
            let (mounted, offered): (BTreeSet<_>, BTreeSet<_>) =
                (volumes("volumeMounts").collect(), volumes("volumes").collect());
            assert_eq!(mounted, offered, "{file}: volumes mounted and offered differ");
        }
    }
}

#[test]
fn what_manifests_carry_is_read() {
    for (file, manifest) in manifests().iter().filter(|(_, it)| it["kind"] == "ConfigMap") {
        for (name, content) in manifest["data"].as_object().unwrap() {
            let content = content.as_str().unwrap();
            let place = format!("{file}: {name}");
            match name.rsplit('.').next().unwrap() {
                "conf" => check_variables(&place, content),
                "tuning" => drop(Tuning::parse(name, content.as_bytes()).unwrap()),
                "msccl" => prove(&place, content),
                _ => panic!("{place}: nobody reads such a file"),
            }
        }
    }
}

fn prove(place: &str, program: &str) {
    let (target, mut sources) = (Target::native(), SourceMap::new());
    let file = sources.add(place.to_owned(), program.to_owned());
    let compiled = compile(&mut sources, file, &NoFiles, &Launch::default(), &target);
    let compiled = compiled.map_err(|diagnostics| sources.render_all(&diagnostics)).unwrap();
    verify(compiled.schedule.algorithm, &target).unwrap();
}

fn check_variables(place: &str, content: &str) {
    for line in content.lines() {
        let (name, _) = line.split_once('=').unwrap();
        assert!(variable::is_known(name), "{place}: there is no variable {name}");
    }
}

#[test]
fn scripts_pass_a_checker() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut scripts = files("", "sh");
    scripts.extend(files("slurm", "sbatch"));
    let namespaces = ["run", "enter", "rsh"].map(|name| root.join("tests/namespaces").join(name));
    scripts.extend(namespaces);
    scripts.extend([".ci/run", ".ci/supply"].map(|name| root.join(name)));
    assert!(scripts.iter().all(|script| script.is_file()), "{scripts:?}");
    let Ok(checked) = Command::new("shellcheck").args(&scripts).output() else {
        return skip("`shellcheck` is not installed; scripts are not checked");
    };
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

/// A second witness, with the schemas of Kubernetes itself.
#[test]
fn kubeconform_agrees() {
    let mut kubeconform = Command::new("kubeconform");
    kubeconform.args(["-strict", "-ignore-missing-schemas"]).args(files("kubernetes", "yaml"));
    let Ok(checked) = kubeconform.output() else {
        return skip("`kubeconform` is not installed; manifests are held to our own schema alone");
    };
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
