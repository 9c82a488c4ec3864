"""`holdfast data`: the named datasets."""

import argparse

from holdfast.datasets import listing
from holdfast.datasets.get import data_root, get, verify


def describe(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=type(parser))
    listed = actions.add_parser("list", help="what there is")
    got = actions.add_parser("get", help="download and verify")
    verified = actions.add_parser("verify", help="check every sample")
    source = "the official archive, or a folder with its files or images, already on this disk"
    got.add_argument("--from", dest="source", metavar="PATH", help=source)
    for action, command in ((listed, show_list), (got, bring), (verified, check)):
        action.set_defaults(command=command)
        action.add_argument("--data", metavar="DIR", help="where datasets lie")
    for action in (got, verified):
        action.add_argument("name", help="cifar10, cifar100 or mini-imagenet")


def show_list(options: argparse.Namespace) -> int:
    root = data_root(options.data)
    print(f"datasets in {root}:")
    for row in listing(root):
        shape = "×".join(map(str, row.sample_shape))
        print(f"  {row.name:13} {row.classes:4} classes {row.train:6} + {row.test:5} samples {shape:8}  {row.status}")
    return 0


def bring(options: argparse.Namespace) -> int:
    get(options.name, data_root(options.data), options.source)
    return 0


def check(options: argparse.Namespace) -> int:
    for part, digest in verify(options.name, data_root(options.data)).items():
        print(f"{options.name} {part}: right ({digest[:16]})")
    return 0
