"""Write the software bill of materials, in CycloneDX's JSON: `make sbom`."""

import json
import sys
from importlib.metadata import version
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from tests.supply.parts import PROGRAM, Jar, Package, jars, packages


def sbom() -> str:
    """Return the bill of the packages of `make install`, of the job's jars and, optional, of the lab's."""
    program = Component(name=PROGRAM, version=version(PROGRAM), type=ComponentType.APPLICATION, bom_ref=PROGRAM)
    parts = [*map(_of_package, packages()), *map(_of_jar, jars())]
    bom = Bom(components=parts)
    bom.metadata.component = program
    bom.register_dependency(program, parts)
    return json.dumps(json.loads(JsonV1Dot6(bom).output_as_string()), indent=1) + "\n"


def _of_package(package: Package) -> Component:
    url = PackageURL("pypi", name=package.name, version=package.version)
    return Component(
        name=package.name,
        version=package.version,
        purl=url,
        bom_ref=str(url),
        licenses=[DisjunctiveLicense(name=package.license)] if package.license else None,
        properties=[Property(name="rebalance-watch:sha256", value=one) for one in package.sha256],
    )


def _of_jar(jar: Jar) -> Component:
    return Component(
        name=jar.name,
        group=jar.group or None,
        version=jar.version,
        purl=PackageURL("maven", jar.group, jar.name, jar.version) if jar.group else None,
        bom_ref=f"{jar.jar_set}/{jar.file}",
        scope=ComponentScope.REQUIRED if jar.jar_set == "spark" else ComponentScope.OPTIONAL,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=jar.sha256)],
        properties=[Property(name="rebalance-watch:jars", value=jar.jar_set)],
    )


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(sbom(), "utf-8")
    print(f"{file}: {len(packages())} packages, {len(jars())} jars")
