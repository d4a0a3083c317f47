"""Desktop programs for apps.py, without a display: browsers, an office, drawing, typesetting."""

import re

PAGE = """<!doctype html><meta charset="utf-8"><title>work</title>
<style>body { margin: 0; background: #def }
i { display: inline-block; width: 7px; height: 7px }</style>
<canvas id="c" width="300" height="200"></canvas><div id="d"></div><pre id="p"></pre>
<script>
const words = new Map();
for (let i = 0; i < 60000; i++) words.set("k" + i * 7919 % 30011, "v".repeat(i % 50));
let sum = 0; for (const text of words.values()) sum += text.length;
const draw = document.getElementById("c").getContext("2d");
for (let i = 0; i < 500; i++) {
  draw.fillStyle = `rgb(${i % 256},${i * 7 % 256},${i * 13 % 256})`;
  draw.fillRect(i * 7 % 300, i * 11 % 200, 20, 15);
}
const box = document.getElementById("d");
for (let i = 0; i < 2000; i++) {
  const cell = document.createElement("i");
  cell.style.background = `hsl(${i % 360},70%,50%)`;
  box.append(cell);
}
document.getElementById("p").textContent =
  [words.size, sum, JSON.stringify([...words]).length, /7{3}/.test("x777")].join(" ");
</script>
"""


def chromium(work):
    """Chromium, headless: a page with script, canvas and 2,000 elements, printed as a tree"""
    browser = work.need("chromium")
    page = work.write("page.html", PAGE)
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--user-data-dir=profile",
        "--virtual-time-budget=4000",
    ]
    work.twice([browser, *options, "--dump-dom", page.as_uri()], inside="chromium")
    return work.version([browser, "--version"])


def firefox(work):
    """Firefox, headless, with several processes: a page with script and canvas, its picture"""
    browser = work.need("firefox-esr")
    page = work.write("page.html", PAGE)
    # Firefox takes absolute paths only.
    line = (
        'mkdir profile && exec "$1" --headless --no-remote --profile "$PWD/profile" --screenshot '
        '"$PWD/picture.png" --window-size=400,300 "$2"'
    )
    for sandbox in (0, 1, 0):
        work.twice(
            ["sh", "-c", line, "sh", browser, page.as_uri()],
            inside="libxul.so",
            output=False,
            files=["picture.png"],
            env={"MOZ_DISABLE_CONTENT_SANDBOX": sandbox, "MOZ_CRASHREPORTER_DISABLE": 1},
        )
    return work.version([browser, "--version"])


def without_file_ids(text):
    """PDF files carry the time and a random identifier."""
    text = re.sub(rb"/(CreationDate|ModDate)\s*\([^)]*\)", b"", text)
    text = re.sub(rb"/ID\s*\[[^]]*\]", b"", text)
    return re.sub(rb"/DocChecksum\s*/\w+", b"", text)


def libreoffice(work):
    """LibreOffice: a table of 6,000 rows from CSV to ODS and back, a text to PDF"""
    office = work.need("soffice")
    rows = "\n".join(
        f"row {i},{i * 7919 % 10007},=B{i + 1}*2,{'x' * (i % 40)}" for i in range(6000)
    )
    table = work.write("table.csv", "name,value,twice,text\n" + rows + "\n")
    text = work.write(
        "text.html",
        "<h1>Title</h1>"
        + "".join(f"<p>Paragraph {i} <b>bold {i}</b> {'word ' * (i % 60)}</p>" for i in range(300)),
    )
    arguments = [
        "--headless",
        "--norestore",
        # Its own: a second LibreOffice with the same one would pass its work to the first.
        f"-env:UserInstallation=file://{work.bench.path('office')}",
        "--convert-to",
    ]
    work.twice(
        [office, *arguments, "html:HTML (StarCalc)", table],
        inside="libsclo",
        output=False,
        files=["table.html"],
    )
    work.twice(
        [office, *arguments, "txt:Text", "--writer", text],
        inside="libswlo",
        output=False,
        files=["text.txt"],
    )
    return work.version([office, "--version"])


DRAWING = """<svg xmlns="http://www.w3.org/2000/svg" width="400" height="300">
<defs><filter id="f"><feGaussianBlur stdDeviation="3"/></filter><linearGradient id="g">
<stop offset="0" stop-color="red"/><stop offset="1" stop-color="blue"/></linearGradient></defs>
{shapes}<g filter="url(#f)"><circle cx="200" cy="150" r="90" fill="url(#g)" opacity=".7"/></g>
<text x="20" y="40" font-size="24">loam</text></svg>"""


def inkscape(work):
    """Inkscape draws 600 shapes with filters and gradients to PNG"""
    inkscape = work.need("inkscape")
    shapes = "".join(
        f'<path d="M{i % 400} {i * 7 % 300} q 20 {i % 50} 40 0 t 30 {i % 20}" fill="none" '
        f'stroke="hsl({i % 360},60%,50%)"/>'
        for i in range(600)
    )
    drawing = work.write("drawing.svg", DRAWING.format(shapes=shapes))
    work.twice(
        [inkscape, drawing, "--export-type=png", "--export-filename=drawing.png"],
        inside="inkscape",
        output=False,
        files=["drawing.png"],
    )
    return work.version([inkscape, "--version"])


SCHEME = """(let* ((image (car (gimp-image-new 300 200 RGB)))
 (layer (car (gimp-layer-new image 300 200 RGB-IMAGE "l" 100 LAYER-MODE-NORMAL))))
 (gimp-image-insert-layer image layer 0 0)
 (gimp-context-set-foreground '(200 40 90)) (gimp-context-set-background '(20 90 200))
 (gimp-drawable-edit-gradient-fill layer GRADIENT-LINEAR 0 FALSE 1 0 FALSE 0 0 299 199)
 (plug-in-gauss RUN-NONINTERACTIVE image layer 15 15 0)
 (gimp-image-scale image 600 400) (gimp-image-flatten image)
 (file-ppm-save RUN-NONINTERACTIVE image
  (car (gimp-image-get-active-drawable image)) "p.ppm" "p.ppm" 1)
 (gimp-quit 0))"""


def gimp(work):
    """GIMP in batch mode: a gradient, a blur by a plug-in process, scaling, PPM"""
    gimp = work.need("gimp")
    work.twice(
        [gimp, "-i", "-d", "-f", "-n", "-b", SCHEME], inside="gimp-2", output=False, files=["p.ppm"]
    )
    return work.version([gimp, "--version"])


BLENDER = """
import bpy
bpy.ops.wm.read_factory_settings(use_empty=True)
for i in range(12):
    bpy.ops.mesh.primitive_ico_sphere_add(subdivisions=3, location=(i % 4, i // 4, 0), radius=.6)
    shape = bpy.context.object
    shape.modifiers.new("sub", "SUBSURF").levels = 1
    shape.modifiers.new("wave", "WIREFRAME").thickness = .05
total = 0
graph = bpy.context.evaluated_depsgraph_get()
for shape in bpy.data.objects:
    mesh = shape.evaluated_get(graph).to_mesh()
    total += len(mesh.vertices)
bpy.ops.object.light_add(type="SUN")
bpy.ops.object.camera_add(location=(1.5, 1, 9))
scene = bpy.context.scene
scene.camera = bpy.context.object
scene.render.engine = "CYCLES"
scene.cycles.samples, scene.cycles.seed, scene.cycles.device = 2, 7, "CPU"
scene.cycles.use_denoising = False
scene.render.resolution_x, scene.render.resolution_y = 120, 80
scene.render.image_settings.file_format = "BMP"
scene.render.filepath = "picture.bmp"
bpy.ops.render.render(write_still=True)
open("total.txt", "w").write(f"{total}\\n")
"""


def blender(work):
    """Blender: modifiers on 12 meshes, a picture by Cycles on the processor"""
    blender = work.need("blender")
    work.twice(
        [
            blender,
            "--background",
            "--factory-startup",
            "--python-exit-code",
            "3",
            "--python",
            work.write("work.py", BLENDER),
        ],
        inside="blender",
        output=False,
        files=["total.txt", "picture.bmp"],
    )
    return work.version([blender, "--version"])


TEX = r"""\documentclass{article}\begin{document}\tableofcontents
\newcount\n \loop\section{Number \the\n}Text $\sum_{i=0}^{\the\n} x_i^2$ and more
\begin{tabular}{ll} a & b \\ c & d \end{tabular}. \advance\n by 1 \ifnum\n<150\repeat
\end{document}"""


def latex(work):
    """pdfTeX with LaTeX sets a document of 150 sections to PDF"""
    latex = work.need("pdflatex")
    document = work.write("document.tex", TEX)
    work.twice(
        [latex, "-interaction=batchmode", "-halt-on-error", document],
        inside=("pdftex", "pdflatex"),
        output=False,
        files=["document.pdf"],
        normal=without_file_ids,
        env={"FORCE_SOURCE_DATE": 1},
    )
    return work.version([latex, "--version"])


APPS = {
    "chromium": (["chromium"], chromium),
    "firefox": (["firefox-esr"], firefox),
    "libreoffice": (["libreoffice-calc", "libreoffice-writer"], libreoffice),
    "inkscape": (["inkscape"], inkscape),
    "gimp": (["gimp"], gimp),
    "blender": (["blender"], blender),
    "latex": (["texlive-latex-base"], latex),
}
