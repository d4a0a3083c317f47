"""Programs for pictures, film, maps and plots for apps.py."""

import re


def ffmpeg(work):
    """FFmpeg: MPEG-4 and AAC on four threads, decoded, scaled and filtered, a sum a frame; H.264"""
    ffmpeg = work.need("ffmpeg")
    film = [
        "-v",
        "error",
        "-f",
        "lavfi",
        "-i",
        "testsrc2=d=4:s=320x240:r=25",
        "-f",
        "lavfi",
        "-i",
        "sine=d=4",
        "-threads",
        "4",
        "-c:a",
        "aac",
        "-flags",
        "+bitexact",
        "-fflags",
        "+bitexact",
    ]
    work.twice(
        [ffmpeg, *film, "-c:v", "mpeg4", "film.mp4"],
        inside="libavcodec",
        output=False,
        files=["film.mp4"],
    )
    work.twice(
        [
            ffmpeg,
            "-v",
            "error",
            "-i",
            work.keep("film.mp4"),
            "-vf",
            "scale=200:150,hue=s=0.5,boxblur=2",
            "-f",
            "framemd5",
            "-",
        ],
        inside="libavfilter",
    )
    # What libx264 writes depends on memory that it has not set: glibc's MALLOC_PERTURB_ changes it.
    work.twice([ffmpeg, *film, "-c:v", "libx264", "film.mp4"], inside="libx264", output=False)
    work.twice(
        [ffmpeg, "-v", "error", "-i", work.keep("film.mp4"), "-map", "0:v", "-f", "framemd5", "-"],
        inside="libavcodec",
        normal=lambda text: b"%d" % text.count(b"\n"),
    )
    return work.version([ffmpeg, "-version"])


def imagemagick(work):
    """ImageMagick: plasma, blur, distortion, montage and quantised colours, with OpenMP"""
    convert = work.need("convert")
    work.twice(
        [
            convert,
            "-seed",
            "7",
            "-size",
            "400x300",
            "plasma:red-blue",
            "-blur",
            "0x4",
            "-distort",
            "Arc",
            "60",
            "(",
            "+clone",
            "-rotate",
            "30",
            "-resize",
            "50%",
            ")",
            "-gravity",
            "center",
            "-composite",
            "-colors",
            "64",
            "-define",
            "png:exclude-chunks=date,time",
            "ppm:-",
        ],
        inside="libMagickCore",
    )
    return work.version([convert, "--version"])


SCENE = """
camera { location <0, 2, -6> look_at <0, 1, 0> } light_source { <5, 9, -9> rgb 1 }
plane { y, 0 pigment { checker rgb 1 rgb .2 } finish { reflection .2 } }
#declare I = 0; #while (I < 60) sphere { <mod(I, 10) - 5, .3 + mod(I, 3), I / 8>, .4
 texture { pigment { marble turbulence .8
  color_map { [0 rgb <1, 0, 0>] [1 rgb <0, 0, 1>] } } finish { phong 1 } } }
#declare I = I + 1; #end
"""


def povray(work):
    """POV-Ray on two threads: 60 textured spheres with reflections"""
    povray = work.need("povray")
    # This program passes a wrong size to operator delete: docs/guide/debug.md has the case.
    work.twice(
        [
            povray,
            "-D",
            "+W160",
            "+H120",
            "+FP",
            "+Opicture.ppm",
            "+WT2",
            work.write("scene.pov", SCENE),
        ],
        inside="povray",
        output=False,
        files=["picture.ppm"],
        normal=lambda text: re.sub(rb"# Render Date:.*", b"", text),
        mistake=("wrong-size", rb"loam: free of .* with a size of"),
    )
    return work.version([povray, "--version"], line=1)


PLOT = """set terminal svg size 600,400; set output 'plot.svg'; set samples 2000; set isosamples 50
set multiplot layout 2,1; plot sin(x*x)/x, besj0(x); set hidden3d; splot x*x*sin(y); unset multiplot
print sum [i=1:2000] sin(i); array A[3000]
do for [i=1:3000] { A[i] = sprintf("%d", i*7919%10007) }; print A[77]
"""


def gnuplot(work):
    """gnuplot: functions, a surface, arrays, as SVG"""
    gnuplot = work.need("gnuplot")
    work.twice(
        [gnuplot, work.write("plot.gp", PLOT)], inside="gnuplot", output=False, files=["plot.svg"]
    )
    return work.version([gnuplot, "--version"])


def graphviz(work):
    """Graphviz: a graph of 120 nodes by dot and by neato, as SVG"""
    dot = work.need("dot")
    edges = "".join(f"n{i} -> n{i // 3};n{i} -> n{(i + 1) % 121};" for i in range(121))
    graph = work.write("graph.dot", f"digraph g {{ {edges} }}")
    work.twice([dot, "-Tsvg", graph], inside="libgvc")
    work.twice([dot, "-Kneato", "-Tplain", graph], inside="libgvc")
    return work.version([dot, "-V"])


def gdal(work):
    """GDAL: a raster from text, warped to another projection, hill shades, statistics"""
    translate, warp, dem = work.need("gdal_translate", "gdalwarp", "gdaldem")
    size = 200
    cells = "\n".join(
        " ".join(str(x * 7 % 90 + y * y % 70) for x in range(size)) for y in range(size)
    )
    grid = work.write(
        "grid.asc",
        f"ncols {size}\nnrows {size}\nxllcorner 8\nyllcorner 47\n" f"cellsize 0.01\n{cells}\n",
    )
    work.twice(
        [translate, "-q", "-a_srs", "EPSG:4326", "-of", "GTiff", grid, "grid.tif"],
        inside="gdal",
        output=False,
        files=["grid.tif"],
    )
    raster = work.keep("grid.tif")
    work.twice(
        [
            warp,
            "-q",
            "-t_srs",
            "EPSG:3857",
            "-r",
            "cubic",
            "-wo",
            "NUM_THREADS=4",
            "-multi",
            raster,
            "w.tif",
        ],
        inside="gdal",
        output=False,
        files=["w.tif"],
    )
    work.twice(
        [dem, "hillshade", "-q", "-s", "111120", raster, "shade.tif"],
        inside="gdal",
        output=False,
        files=["shade.tif"],
    )
    return work.version([translate, "--version"])


def cmake(work):
    """CMake configures a project with 300 targets and writes its Ninja files"""
    cmake = work.need("cmake")
    lists = (
        "cmake_minimum_required(VERSION 3.20)\nproject(work C)\nfile(WRITE ${CMAKE_BINARY_DIR}/a.c "
        '"int main(void){return 0;}")\nforeach(i RANGE 1 300)\n  add_executable(t${i} '
        '${CMAKE_BINARY_DIR}/a.c)\n  math(EXPR p "${i} / 2")\n  if(p GREATER 0)\n'
        "    add_dependencies(t${i} t${p})\n  endif()\nendforeach()\n"
    )
    source = work.write("project/CMakeLists.txt", lists).parent
    work.twice(
        [cmake, "-G", "Ninja", "-S", source, "-B", "."],
        inside="cmake",
        output=False,
        files=["build.ninja"],
        normal=lambda text: text.replace(b"/plain", b"/loaded"),
    )
    return work.version([cmake, "--version"])


APPS = {
    "ffmpeg": (["ffmpeg"], ffmpeg),
    "imagemagick": (["imagemagick"], imagemagick),
    "povray": (["povray"], povray),
    "gnuplot": (["gnuplot-nox"], gnuplot),
    "graphviz": (["graphviz"], graphviz),
    "gdal": (["gdal-bin"], gdal),
    "cmake": (["cmake"], cmake),
}
