"""Write the streams of the review of haphazard inputs (Agarwal et al. 2024) for `papers haphazard`.

    git clone https://github.com/Rohit102497/HaphazardInputsReview
    pip install numpy "pandas<3"
    python tools/quality/haphazard.py HaphazardInputsReview DIR/haphazard [NAME...]

The review's own functions read, shuffle and mask the sets, with its seed. NAME.csv.gz gets the labels and all values,
NAME.pNN.gz a line of 0 (absent) and 1 for each event. magic04 and a8a must be downloaded first, see the review's README.
"""

import gzip
import pathlib
import sys

import numpy as np

SETS = ["wpbc", "ionosphere", "wdbc", "australian", "wbc", "diabetes_f", "german", "ipd", "svmguide3", "krvskp", "spambase", "magic04", "a8a"]


def write(path: pathlib.Path, lines: list[str]) -> None:
    with gzip.GzipFile(path, "wb", mtime=0) as f:  # without the time, so that the file is the same again
        f.write("".join(line + "\n" for line in lines).encode())


def main() -> None:
    checkout, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    sys.path.insert(0, str(checkout / "Code"))
    from DataCode.data_load import data_load_synthetic

    out.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[3:] or SETS:
        for percent in (25, 50, 75):
            np.random.seed(2023)
            values, labels, _, mask = data_load_synthetic(name, "variable_p", percent / 100)
            write(out / f"{name}.p{percent}.gz", ["".join("1" if m else "0" for m in row) for row in mask])
        header = ",".join(["label", *(f"x{j}" for j in range(values.shape[1]))])
        rows = [",".join([str(int(label)), *("" if np.isnan(v) else repr(float(v)).removesuffix(".0") for v in row)]) for label, row in zip(labels.ravel(), values.astype(float))]
        write(out / f"{name}.csv.gz", [header, *rows])


main()
