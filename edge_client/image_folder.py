"""A device's own images, in a folder for each class, looked at anew whenever a round begins.

A sample is its class and the digest of its file's content: a name may change, and a file may move. The digest also says
whether an image is one to train on or to test on, so that it stays what it is when others come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edge_client.image_cache import ImageCache
from edge_client.local_state import SampleFile
from models.data import ClientData, check_normalization, list_faults
from models.datasets.images import class_folders, class_name, files_below, label_of, list_images, shown
from models.datasets.pixels import require_pillow
from models.label_map import UnknownLabels, refusal_of_class
from models.spec import ConfigError, DataConfig

_NAMED_AT_MOST = 20
"""Classes without images that a note names."""


class FoundImage(NamedTuple):
    """A file that is an image, in the folder of a class."""

    label: int
    digest: str
    path: Path


class ImageFolder:
    """The folder; `config` is the run's word on size, channels, normalisation and the share to test on."""

    def __init__(self, root: str, classes: Sequence[str], config: DataConfig, unknown_labels: UnknownLabels) -> None:
        """Take up the settings.

        Raises:
            ConfigError: Pillow is missing, or the run's normalisation does not fit its channels.
        """
        require_pillow()
        check_normalization(config, (config.channels, config.image_size, config.image_size), "the coordinator's run")
        self._root = Path(root).expanduser()
        self._classes = list(classes)
        self._config = config
        self._refuses = unknown_labels == "refuse"
        self._cache = ImageCache(config)
        self._seen: object = None
        self._data = ClientData(*self._arrays([]), *self._arrays([]), self._classes)
        self.files: list[SampleFile] = []

    def look(self, begun_with: Sequence[SampleFile] | None = None) -> ClientData:
        """Return the samples that are there now, or of these files those that still are; what is new then waits.

        Nothing in the folder is an error, nor is its absence: what cannot be used is counted and named in the notes.
        If all is as it was at the last look, so is what is returned.

        Raises:
            ConfigError: at the first look, images of an unknown class, if these are to be refused.
        """
        images, faults, notes = self._list()
        paths = [image.path for image in images]
        if begun_with is not None:
            images, told = self._chosen(images, begun_with)
            notes += told
        if (seen := (images, paths, faults, notes)) != self._seen:
            self._seen = seen
            self._take(images, faults, notes)
        self._cache.forget_others()
        return self._data

    def _list(self) -> tuple[list[FoundImage], list[str], list[str]]:
        """Return all images of known classes, what is left out and why, and what to tell of the folder itself."""
        try:
            folders = class_folders(self._root)
            others = sorted(set(self._root.iterdir()) - set(folders))
        except OSError as error:
            return [], [], [f"{shown(self._root)}: {error.strerror}: there is nothing to train on until it is back"]
        images: list[FoundImage] = []
        faults: list[str] = []
        for other in others:
            paths, passed_by = files_below(other) if other.is_dir() else ([other], [])
            faults += [*(f"{shown(path)}: in no class's folder" for path in paths), *passed_by]
        for folder in folders:
            paths, junk = list_images(folder)
            faults += junk
            label = label_of(folder, self._classes)
            if label is None:
                faults += self._strangers(folder, paths)
            else:
                images += self._readable(label, paths, faults)
        self._refuses = False
        return sorted(images), faults, []

    def _strangers(self, folder: Path, paths: Sequence[Path]) -> list[str]:
        """Refuse or leave out the images of an unknown class."""
        reason = refusal_of_class(class_name(folder), self._classes)
        if paths and self._refuses:
            raise ConfigError(f"{shown(folder)}: {reason}; [data] unknown_labels = 'skip' leaves it out")
        return [f"{shown(path)}: {reason}" for path in paths]

    def _readable(self, label: int, paths: Sequence[Path], faults: list[str]) -> list[FoundImage]:
        """Return the images among some files, and add the others to the faults."""
        images = []
        for path in paths:
            try:
                digest = self._cache.digest(path)
                fault = self._cache.fault(digest)
            except OSError as error:
                fault = str(error.strerror)
            if fault:
                faults.append(f"{shown(path)}: {fault}")
            else:
                images.append(FoundImage(label, digest, path))
        return images

    def _chosen(
        self, images: Sequence[FoundImage], begun_with: Sequence[SampleFile]
    ) -> tuple[list[FoundImage], list[str]]:
        """Return the images that the work was begun with, and what to tell of those that are gone or have come."""
        missing = Counter((file.class_name, file.digest) for file in begun_with)
        chosen = []
        for image in images:
            key = (self._classes[image.label], image.digest)
            if missing[key] > 0:
                missing[key] -= 1
                chosen.append(image)
        names = {(file.class_name, file.digest): file.name for file in begun_with}
        gone = [names[key] for key in missing.elements()]
        notes = [list_faults(f"{len(begun_with)} images that the work was begun with are gone", gone)] if gone else []
        if len(images) > len(chosen):
            notes.append(
                f"{len(images) - len(chosen)} images that have come since the work began wait until it is over"
            )
        return chosen, notes

    def _take(self, images: Sequence[FoundImage], faults: Sequence[str], notes: Sequence[str]) -> None:
        """Make these images the samples."""
        train = [image for image in images if not _is_test(image.digest, self._config.test_fraction)]
        test = [image for image in images if _is_test(image.digest, self._config.test_fraction)]
        told = [self._count(train, test), *notes]
        if faults:
            told.append(
                list_faults(f"{len(images) + len(faults)} entries in {shown(self._root)} cannot be used", faults)
            )
        data = ClientData(*self._arrays(train), *self._arrays(test), self._classes, told, len(faults))
        self._cache.share([image.digest for image in (*train, *test)], [*data.train_x, *data.test_x])
        self._data = data
        self.files = [
            SampleFile(self._classes[image.label], image.digest, shown(image.path.relative_to(self._root)))
            for image in images
        ]

    def _arrays(self, images: Sequence[FoundImage]) -> tuple[np.ndarray, np.ndarray]:
        """Return samples and labels."""
        size = self._config.image_size
        x = np.empty((len(images), self._config.channels, size, size), np.float32)
        for row, image in enumerate(images):
            x[row] = self._cache.pixels(image.digest)
        return x, np.array([image.label for image in images], np.int64)

    def _count(self, train: Sequence[FoundImage], test: Sequence[FoundImage]) -> str:
        held = {image.label for image in (*train, *test)}
        absent = [name for label, name in enumerate(self._classes) if label not in held]
        none = f"; none of {', '.join(absent[:_NAMED_AT_MOST])}" if absent else ""
        return f"{shown(self._root)}: {len(train)} images to train on, {len(test)} to test on{none}"


def _is_test(digest: str, fraction: float) -> bool:
    """Say whether an image is one to test on: by its digest, so about that share of all, and for ever."""
    return int(digest[:8], 16) < fraction * 2**32
