"""The Kubernetes manifests keep to the schemas, and to what the server does."""

import re
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from server.commands import make_parser
from server.config import ServeConfig, ServerConfig
from server.flag_reading import serve_config
from server.machine import this_machine
from server.text.tokenizer import Tokenizer
from tests.support.http_app import in_memory, make_app
from tests.support.real_parts import program

FOLDER = Path(__file__).parent.parent.parent / "deploy/kubernetes"
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
NAMES = [name.replace("secret.yaml", "secret.example.yaml") for name in KUSTOMIZATION["resources"]]
VERSIONS = ("1.25", kubernetes_validate.latest_version())

Json = dict[str, object]


def manifests() -> list[dict]:
    texts = [(FOLDER / name).read_text(encoding="utf-8") for name in NAMES]
    return [manifest for text in texts for manifest in yaml.safe_load_all(text)]


def one(kind: str, name: str = "octavo") -> dict:
    (found,) = [
        item for item in manifests() if (item["kind"], item["metadata"]["name"]) == (kind, name)
    ]
    return found


POD = one("Deployment")["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def expanded(arguments: list[str]) -> list[str]:
    """As the kubelet does: $(NAME) is a key of the configuration."""
    settings = one("ConfigMap")["data"]
    return [re.sub(r"\$\((\w+)\)", lambda found: settings[found[1]], text) for text in arguments]


def config(tmp_path: Path) -> ServeConfig:
    keys = tmp_path / "keys"
    keys.write_text(one("Secret", "octavo-keys")["stringData"]["keys"])
    arguments = [
        text.replace("/run/secrets/octavo/keys", str(keys)) for text in expanded(CONTAINER["args"])
    ]
    return serve_config(make_parser().parse_args(arguments), {}, this_machine())


@pytest.mark.parametrize("version", VERSIONS)
def test_the_manifests_keep_to_the_schemas(version: str) -> None:
    kinds = set()
    for manifest in manifests():
        kubernetes_validate.validate(manifest, version, strict=True)
        kinds.add(manifest["kind"])
    assert kinds == {
        "ConfigMap",
        "Deployment",
        "HorizontalPodAutoscaler",
        "PersistentVolumeClaim",
        "PodDisruptionBudget",
        "Secret",
        "Service",
    }


def test_a_wrong_manifest_does_not() -> None:
    manifest = one("Deployment")
    manifest["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, VERSIONS[0], strict=True)


def test_the_server_understands_its_arguments(tmp_path: Path) -> None:
    found = config(tmp_path)
    assert found.listen.port == CONTAINER["ports"][0]["containerPort"]
    assert found.http.api_keys == ("change-me",)
    assert str(found.threads) == CONTAINER["resources"]["limits"]["cpu"]
    assert found.engine.kv_cache_bytes < 4 * 2**30 == _bytes(CONTAINER["resources"]["limits"])
    (pull,) = POD["initContainers"]
    assert make_parser().parse_args(expanded(pull["args"])).name == "smollm2"


def _bytes(limits: Json) -> int:
    (gibibytes,) = re.findall(r"^(\d+)Gi$", str(limits["memory"]))
    return int(gibibytes) * 2**30


def test_a_pod_may_live_as_long_as_it_drains(tmp_path: Path) -> None:
    before = int(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    assert POD["terminationGracePeriodSeconds"] > before + config(tmp_path).grace_seconds


async def test_the_probes_ask_for_paths_that_need_no_key(tokenizer: Tokenizer) -> None:
    locked = make_app(tokenizer, config=ServerConfig("m", api_keys=("key",)))
    async with in_memory(locked) as client:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            path = CONTAINER[probe]["httpGet"]["path"]
            assert (await client.get(path)).status_code == 200
            assert CONTAINER[probe]["httpGet"]["port"] == CONTAINER["ports"][0]["name"]


def test_everything_speaks_of_the_same_pods() -> None:
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert one("Deployment")["spec"]["selector"]["matchLabels"] == labels
    assert one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    for service in ("octavo", "octavo-replicas"):
        assert one("Service", service)["spec"]["selector"] == labels
    assert one("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"] == "octavo"


def test_every_volume_that_is_mounted_exists() -> None:
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    for container in [*POD["initContainers"], CONTAINER]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes)
        assert container["securityContext"]["readOnlyRootFilesystem"]
    one("PersistentVolumeClaim", volumes["models"]["persistentVolumeClaim"]["claimName"])
    one("Secret", volumes["keys"]["secret"]["secretName"])


def test_the_autoscaler_reads_what_the_adapter_offers(tokenizer: Tokenizer) -> None:
    (metric,) = one("HorizontalPodAutoscaler")["spec"]["metrics"]
    text = (FOLDER / "prometheus-adapter.yaml").read_text(encoding="utf-8")
    (rule,) = yaml.safe_load(text)["rules"]["custom"]
    assert metric["pods"]["metric"]["name"] == rule["name"]["as"]
    shown = make_app(tokenizer).metrics.render().decode()
    assert f"\n{rule['seriesQuery'].partition('{')[0]} " in shown


def test_prometheus_understands_what_it_makes_of_the_pods(tmp_path: Path) -> None:
    """Debian's Prometheus is built without Kubernetes: it is shown all but how pods are found."""
    found = yaml.safe_load((FOLDER / "prometheus-scrape.yaml").read_text(encoding="utf-8"))
    (job,) = found["scrape_configs"]
    assert job.pop("kubernetes_sd_configs") == [
        {"role": "pod", "namespaces": {"names": [KUSTOMIZATION["namespace"]]}}
    ]
    targets = {rule.get("target_label") for rule in job["relabel_configs"]}
    assert {"namespace", "pod"} <= targets, "what the adapter asks for"
    path = tmp_path / "prometheus.yml"
    path.write_text(yaml.safe_dump(found))
    command = [program("promtool", "prometheus"), "check", "config", "--syntax-only", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
