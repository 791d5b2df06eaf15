"""Writes scikit-learn's digits (1,797 images of 8 x 8 pixels) as DIR/digits/stream.svm.gz:

    pip install scikit-learn
    python tools/quality/digits.py DIR
"""
import gzip
import os
import sys

from sklearn.datasets import load_digits

images, labels = load_digits(return_X_y=True)
folder = os.path.join(sys.argv[1], "digits")
os.makedirs(folder, exist_ok=True)
with gzip.open(os.path.join(folder, "stream.svm.gz"), "wt") as out:
    for image, label in zip(images, labels):
        out.write(str(label) + "".join(f" {i + 1}:{x:g}" for i, x in enumerate(image) if x) + "\n")
